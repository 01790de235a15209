//! Messages with every field set, made from the descriptors: for tests that must notice a new field.

use clawjob_proto::json;
use prost::{Message, Name};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

/// A message of the type with every field set to something that is not its default. Of a oneof the
/// member number `pick` is set.
pub(crate) fn full<M: Message + Name + Default>(pick: usize) -> M {
    let descriptor = json::pool().get_message_by_name(&M::full_name()).expect("in the contract");
    message(&descriptor, pick).transcode_to().expect("the same type")
}

/// The dynamic form of a message.
pub(crate) fn dynamic<M: Message + Name>(of: &M) -> DynamicMessage {
    let descriptor = json::pool().get_message_by_name(&M::full_name()).expect("in the contract");
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(of).expect("the same type");
    dynamic
}

fn message(descriptor: &MessageDescriptor, pick: usize) -> DynamicMessage {
    let mut message = DynamicMessage::new(descriptor.clone());
    for field in descriptor.fields() {
        if let Some(oneof) = field.containing_oneof()
            && !oneof.is_synthetic()
            && oneof.fields().nth(pick % oneof.fields().len()).as_ref() != Some(&field)
        {
            continue;
        }
        message.set_field(&field, value(&field, pick));
    }
    message
}

fn value(field: &FieldDescriptor, pick: usize) -> Value {
    if field.is_map() {
        return Value::Map([(MapKey::String("key".into()), Value::String("value".into()))].into());
    }
    if field.is_list() {
        return Value::List((0..4).map(|member| single(field, member)).collect());
    }
    single(field, pick)
}

fn single(field: &FieldDescriptor, pick: usize) -> Value {
    match field.kind() {
        Kind::Message(inner) if inner.package_name() == "google.protobuf" => {
            let mut time = DynamicMessage::new(inner);
            time.set_field_by_name("seconds", Value::I64(3600));
            Value::Message(time)
        }
        Kind::Message(inner) => Value::Message(message(&inner, pick)),
        Kind::Enum(_) => Value::EnumNumber(2),
        Kind::String if field.name() == "excluded_dates" => Value::String("2026-12-25".into()),
        Kind::String if field.name() == "content_type" => Value::String("text/plain".into()),
        Kind::String => Value::String(format!("{}-{pick}", field.name())),
        Kind::Bytes => Value::Bytes("data".into()),
        Kind::Bool => Value::Bool(true),
        Kind::Float => Value::F32(0.5),
        Kind::Double => Value::F64(3.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(7),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(7),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(7),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(7),
    }
}
