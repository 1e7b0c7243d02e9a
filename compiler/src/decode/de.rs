//! A serde [`Deserializer`] over document nodes that keeps places and written text.
//!
//! A `String` takes the text of any scalar as written: `8080`, `1.10` and `yes` stay what they are. Keys that start
//! with `x-` are skipped in structs, not in maps, where `x-api-key` is data. [`Spanned`](crate::source::Spanned) works
//! for values and for keys. Unit-only enums are words; nothing else is supported, since config types hold nothing else.

use serde::de::value::{BorrowedStrDeserializer, U32Deserializer, U64Deserializer};
use serde::de::{self, Deserialize, DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;

use crate::code::Code;
use crate::diagnostic::Diagnostic;
use crate::document::{Entry, Kind, Node, Number, number_of};
use crate::source::{SPANNED, SPANNED_FIELDS, Span};

/// Fills a `T` from a node that [`check`](super::check) has passed.
///
/// # Errors
/// When the type wants something else than its schema said: [`Code::Internal`], at the innermost place.
pub fn decode<'de, T: Deserialize<'de>>(node: &'de Node) -> Result<T, Box<Diagnostic>> {
    T::deserialize(Reader { node }).map_err(|error| {
        let at = error.at.unwrap_or_else(|| node.head());
        let message = format!("this passed every check and still can't be read: {}", error.message);
        Box::new(
            Diagnostic::new(Code::Internal, at, message)
                .label("stopped here")
                .help("this is a bug in mcplan; please report it with this part of the file"),
        )
    })
}

/// Why a node doesn't fill a type.
#[derive(Debug)]
struct DecodeError {
    at: Option<Span>,
    message: String,
}

impl DecodeError {
    fn at(mut self, span: Span) -> Self {
        self.at.get_or_insert(span);
        self
    }
}

impl std::fmt::Display for DecodeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for DecodeError {}

impl de::Error for DecodeError {
    fn custom<T: std::fmt::Display>(message: T) -> Self {
        Self { at: None, message: message.to_string() }
    }
}

/// A node being read.
#[derive(Clone, Copy)]
struct Reader<'de> {
    node: &'de Node,
}

impl<'de> Reader<'de> {
    fn wrong<V: Visitor<'de>>(self, visitor: &V) -> DecodeError {
        let expected: &dyn de::Expected = visitor;
        let message = format!("{} where {expected} is expected", self.node.what());
        DecodeError { at: Some(self.node.head()), message }
    }

    fn located<T>(self, result: Result<T, DecodeError>) -> Result<T, DecodeError> {
        result.map_err(|error| error.at(self.node.head()))
    }

    fn number(self) -> Option<Number> {
        match &self.node.kind {
            Kind::Number(text) => number_of(text),
            _ => None,
        }
    }

    /// A whole number; `5.0` is one, as in JSON Schema.
    fn whole(self) -> Option<i128> {
        match self.number()? {
            Number::Whole(whole) => Some(whole),
            Number::Float(float) if float.fract() == 0.0 && float.abs() < 1e38 => Some(float as i128),
            Number::Float(_) => None,
        }
    }
}

macro_rules! whole {
    ($($deserialize:ident $visit:ident $type:ty;)+) => {
        $(fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
            match self.whole().and_then(|whole| <$type>::try_from(whole).ok()) {
                Some(whole) => self.located(visitor.$visit(whole)),
                None => Err(self.wrong(&visitor)),
            }
        })+
    };
}

impl<'de> de::Deserializer<'de> for Reader<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            Kind::Null => self.located(visitor.visit_unit()),
            Kind::Bool(truth, _) => self.located(visitor.visit_bool(*truth)),
            Kind::Number(_) => match self.number() {
                Some(Number::Whole(whole)) => {
                    let result = match (u64::try_from(whole), i64::try_from(whole)) {
                        (Ok(whole), _) => visitor.visit_u64(whole),
                        (_, Ok(whole)) => visitor.visit_i64(whole),
                        _ => visitor.visit_f64(whole as f64),
                    };
                    self.located(result)
                }
                Some(Number::Float(float)) => self.located(visitor.visit_f64(float)),
                None => Err(self.wrong(&visitor)),
            },
            Kind::String(text) => self.located(visitor.visit_borrowed_str(text)),
            Kind::List(_) => self.deserialize_seq(visitor),
            Kind::Map(_) => self.deserialize_map(visitor),
            Kind::Reported => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            Kind::Bool(truth, _) => self.located(visitor.visit_bool(*truth)),
            _ => Err(self.wrong(&visitor)),
        }
    }

    whole! {
        deserialize_i8 visit_i8 i8;
        deserialize_i16 visit_i16 i16;
        deserialize_i32 visit_i32 i32;
        deserialize_i64 visit_i64 i64;
        deserialize_i128 visit_i128 i128;
        deserialize_u8 visit_u8 u8;
        deserialize_u16 visit_u16 u16;
        deserialize_u32 visit_u32 u32;
        deserialize_u64 visit_u64 u64;
        deserialize_u128 visit_u128 u128;
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_f64(visitor)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.number() {
            Some(Number::Whole(whole)) => self.located(visitor.visit_f64(whole as f64)),
            Some(Number::Float(float)) => self.located(visitor.visit_f64(float)),
            None => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.node.text() {
            Some(text) => self.located(visitor.visit_borrowed_str(text)),
            None => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_char<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_str(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.node.kind {
            Kind::Null => self.located(visitor.visit_none()),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match self.node.kind {
            Kind::Null => self.located(visitor.visit_unit()),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_unit(visitor)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.located(visitor.visit_newtype_struct(self))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            Kind::List(items) => self.located(visitor.visit_seq(Items { items: items.iter() })),
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, _length: usize, visitor: V) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _length: usize,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        self.deserialize_seq(visitor)
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        match &self.node.kind {
            Kind::Map(entries) => {
                self.located(visitor.visit_map(Entries { entries: entries.iter(), value: None, fields: None }))
            }
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if name == SPANNED {
            return visitor.visit_map(Spanning::new(self.node.at, Content::Node(self.node)));
        }
        match &self.node.kind {
            Kind::Map(entries) => {
                self.located(visitor.visit_map(Entries { entries: entries.iter(), value: None, fields: Some(fields) }))
            }
            _ => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        match self.node.text() {
            Some(text) => self.located(visitor.visit_enum(BorrowedStrDeserializer::<DecodeError>::new(text))),
            None => Err(self.wrong(&visitor)),
        }
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! { bytes byte_buf }
}

struct Items<'de> {
    items: std::slice::Iter<'de, Node>,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = DecodeError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, DecodeError> {
        self.items.next().map(|node| seed.deserialize(Reader { node })).transpose()
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

struct Entries<'de> {
    entries: std::slice::Iter<'de, Entry>,
    value: Option<&'de Entry>,
    /// The fields of a struct; a map has none and takes every key.
    fields: Option<&'static [&'static str]>,
}

impl<'de> MapAccess<'de> for Entries<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        for entry in self.entries.by_ref() {
            if let Some(fields) = self.fields
                && !fields.contains(&entry.key.as_str())
            {
                if entry.key.starts_with("x-") {
                    continue;
                }
                return Err(<DecodeError as de::Error>::unknown_field(&entry.key, fields).at(entry.key_at));
            }
            self.value = Some(entry);
            return seed.deserialize(Key { entry }).map(Some).map_err(|error| error.at(entry.key_at));
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let entry = self.value.take().ok_or_else(|| <DecodeError as de::Error>::custom("a value before its key"))?;
        let node = &entry.value;
        seed.deserialize(Reader { node }).map_err(|error| error.at(entry.key_at))
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// The key of an entry.
struct Key<'de> {
    entry: &'de Entry,
}

impl<'de> de::Deserializer<'de> for Key<'de> {
    type Error = DecodeError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_borrowed_str(&self.entry.key)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        _fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        if name == SPANNED {
            return visitor.visit_map(Spanning::new(self.entry.key_at, Content::Key(self.entry)));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, DecodeError> {
        visitor.visit_enum(BorrowedStrDeserializer::<DecodeError>::new(&self.entry.key))
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, DecodeError> {
        visitor.visit_some(self)
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

/// What a `Spanned` wraps.
#[derive(Clone, Copy)]
enum Content<'de> {
    Node(&'de Node),
    Key(&'de Entry),
}

/// The fields of a `Spanned`, one after the other.
struct Spanning<'de> {
    at: Span,
    content: Content<'de>,
    field: usize,
}

impl<'de> Spanning<'de> {
    fn new(at: Span, content: Content<'de>) -> Self {
        Self { at, content, field: 0 }
    }
}

impl<'de> MapAccess<'de> for Spanning<'de> {
    type Error = DecodeError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, DecodeError> {
        let field = SPANNED_FIELDS.get(self.field).copied();
        field.map(|field| seed.deserialize(BorrowedStrDeserializer::new(field))).transpose()
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, DecodeError> {
        let offset = |offset: usize| U64Deserializer::<DecodeError>::new(offset as u64);
        let field = self.field;
        self.field += 1;
        match (field, self.content) {
            (0, _) => seed.deserialize(U32Deserializer::<DecodeError>::new(self.at.source.0)),
            (1, _) => seed.deserialize(offset(self.at.start)),
            (2, _) => seed.deserialize(offset(self.at.end)),
            (_, Content::Node(node)) => seed.deserialize(Reader { node }),
            (_, Content::Key(entry)) => seed.deserialize(Key { entry }),
        }
    }
}

impl<'de> IntoDeserializer<'de, DecodeError> for Reader<'de> {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}
