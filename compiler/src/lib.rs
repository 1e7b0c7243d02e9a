//! Compiles an agent's MCP configuration into a locked plan.
//!
//! ```text
//! path ─read─► Source ─parse─► Document ─decode─► Config ─resolve─► Plan ─lock─► Lock
//! ```
//!
//! One type a phase, one function an arrow; each arrow yields a value and the diagnostics it has to give. Nothing in
//! this crate opens a socket, reads a clock or looks at the environment: files come through [`source::Sources`], and
//! what servers report comes in as [`observed::Observed`].

pub mod builtins;
pub mod code;
pub mod config;
pub mod decode;
pub mod diagnostic;
pub mod document;
pub mod edit;
pub mod hidden;
pub mod import;
pub mod interpolate;
pub mod json;
pub mod lint;
pub mod lock;
pub mod name;
pub mod observed;
pub mod package;
pub mod pattern;
pub mod plan;
pub mod prompt_template;
pub mod render;
pub mod resolve;
pub mod schema;
pub mod secret;
pub mod source;

use std::collections::HashSet;
use std::sync::LazyLock;

use code::Code;
use config::spelling::SPELLINGS;
use config::{Config, foreign};
use decode::CompiledSchema;
use diagnostic::Diagnostic;
use document::Document;
use plan::Plan;
use source::{ReadError, SourceMap, Sources, Span};

/// What compiling one config gave.
#[derive(Debug)]
pub struct Compilation {
    /// The plan; `None` when anything was an error.
    pub plan: Option<Plan>,
    /// Everything that was found, sorted by place.
    pub diagnostics: Vec<Diagnostic>,
    /// The texts that the diagnostics point into.
    pub texts: SourceMap,
    /// The files that were read, as the config names them, itself first.
    pub files: Vec<String>,
}

/// Compiles the config at `path`.
///
/// # Errors
/// Only when that file can't be read at all; everything that is wrong in it is among the diagnostics.
pub fn compile(path: &str, files: &dyn Sources) -> Result<Compilation, ReadError> {
    let bytes = files.read(path)?;
    let mut texts = SourceMap::default();
    let (config, mut diagnostics) = read_config(path, &bytes, &mut texts);
    let mut read = vec![path.to_owned()];
    let mut plan = None;
    if let Some(config) = config {
        let resolved = resolve::resolve(&config, &mut texts, files, &diagnostics);
        read.extend(resolved.read);
        diagnostics.extend(resolved.diagnostics);
        plan = resolved.plan.filter(|_| !diagnostics.iter().any(Diagnostic::is_error));
    }
    diagnostic::sort(&mut diagnostics);
    Ok(Compilation { plan, diagnostics, texts, files: read })
}

/// Bytes → Document → Config. There is a config as soon as there is something to decode: what the schema refused is
/// left out of it, so that the rest can be resolved and every mistake is reported in one run.
fn read_config(path: &str, bytes: &[u8], texts: &mut SourceMap) -> (Option<Config>, Vec<Diagnostic>) {
    static SCHEMA: LazyLock<Result<CompiledSchema, String>> =
        LazyLock::new(|| CompiledSchema::new(schema::checked_config()));
    let (id, document, mut diagnostics) = document::load(texts, path, bytes);
    let Some(mut document) = document else { return (None, diagnostics) };
    diagnostics.extend(document::rename(&mut document, SPELLINGS));
    match &*SCHEMA {
        Ok(schema) => {
            let mut refused = check(&document, schema);
            if foreign::reshape(&mut document, &refused) {
                // What was under it is looked at in this run too.
                diagnostics.append(&mut refused);
                diagnostics.extend(document::rename(&mut document, SPELLINGS));
                refused = check(&document, schema);
            }
            decode::mend(&mut document, schema, &refused);
            let said: HashSet<_> = diagnostics.iter().map(|known| (known.code, known.primary.at)).collect();
            diagnostics.extend(refused.into_iter().filter(|new| !said.contains(&(new.code, new.primary.at))));
        }
        Err(reason) => diagnostics.push(Diagnostic::new(Code::Internal, Span::new(id, 0..0), reason.clone())),
    }
    document::name_to_map(&mut document, "mcp_builtins[]", "name");
    match decode::decode(&document.root) {
        Ok(config) => (Some(config), diagnostics),
        Err(problem) => {
            // After another error this one says nothing new.
            if !diagnostics.iter().any(Diagnostic::is_error) {
                diagnostics.push(*problem);
            }
            (None, diagnostics)
        }
    }
}

/// What the schema refuses, in words that know other clients.
fn check(document: &Document, schema: &CompiledSchema) -> Vec<Diagnostic> {
    let mut refused = decode::check(document, schema);
    foreign::explain(document, &mut refused);
    refused
}
