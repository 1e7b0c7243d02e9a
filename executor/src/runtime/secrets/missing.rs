//! All that a launch lacks at once, for whoever has to mend it.

use mcplan_compiler::plan::Server;

use super::{SecretError, Sources, look_up};

/// Every reference of `server`'s launch that has no value.
pub fn missing(server: &Server, sources: Sources<'_>) -> Vec<SecretError> {
    let mut found = Vec::new();
    let templates = server.launch.templates().into_iter();
    let references = templates.flat_map(|(field, template)| {
        let references = template.references();
        references.map(move |reference| (field.clone(), reference))
    });
    let errors =
        references.filter_map(|(field, reference)| look_up(reference, &field, &server.name, sources, &mut found).err());
    errors.collect()
}
