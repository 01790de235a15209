//! Messages to and from the contract's JSON (the canonical protobuf mapping), by the descriptor set.

use std::sync::LazyLock;

use prost::{Message, Name};
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, SerializeOptions};

static POOL: LazyLock<DescriptorPool> = LazyLock::new(|| {
    DescriptorPool::decode(crate::FILE_DESCRIPTOR_SET).expect("the build wrote this descriptor set")
});

/// Why a message could not be turned into JSON or read from it; the text names the field.
#[derive(Debug)]
pub struct JsonError(String);

impl std::fmt::Display for JsonError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for JsonError {}

/// The descriptors of every message and service of the contract.
pub fn pool() -> &'static DescriptorPool {
    &POOL
}

/// The message as a JSON value: camelCase names, 64-bit numbers as strings, defaults left out.
///
/// # Errors
/// A value that JSON cannot carry, such as a timestamp out of range.
pub fn to_value<M: Message + Name>(message: &M) -> Result<serde_json::Value, JsonError> {
    let descriptor = POOL
        .get_message_by_name(&M::full_name())
        .ok_or_else(|| JsonError(format!("{} is not in the contract", M::full_name())))?;
    let mut dynamic = DynamicMessage::new(descriptor);
    dynamic.transcode_from(message).map_err(|e| JsonError(e.to_string()))?;
    // By way of text: a float of 32 bits keeps its shortest form there (0.2), while a value would
    // hold what 64 bits make of it (0.20000000298023224).
    let mut text = Vec::new();
    dynamic
        .serialize_with_options(
            &mut serde_json::Serializer::new(&mut text),
            &SerializeOptions::new().stringify_64_bit_integers(true),
        )
        .and_then(|()| serde_json::from_slice(&text))
        .map_err(|e| JsonError(e.to_string()))
}

/// Reads a message from a JSON value. `ignore_unknown` decides whether a field that the contract
/// lacks is passed over (answers of a newer server) or refused (a user's file).
///
/// # Errors
/// A field of the wrong type, or an unknown one, by name.
pub fn from_value<M: Message + Name + Default>(
    value: serde_json::Value,
    ignore_unknown: bool,
) -> Result<M, JsonError> {
    let descriptor = POOL
        .get_message_by_name(&M::full_name())
        .ok_or_else(|| JsonError(format!("{} is not in the contract", M::full_name())))?;
    let options = DeserializeOptions::new().deny_unknown_fields(!ignore_unknown);
    let dynamic = DynamicMessage::deserialize_with_options(descriptor, value, &options)
        .map_err(|e| JsonError(e.to_string()))?;
    dynamic.transcode_to().map_err(|e| JsonError(e.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_of_32_bits_keeps_its_shortest_form() {
        let retry = crate::v1::RetryPolicy { jitter: Some(0.2), ..Default::default() };
        let value = to_value(&retry).expect("a retry policy is JSON");
        assert_eq!(value.to_string(), r#"{"jitter":0.2}"#);
        assert_eq!(from_value::<crate::v1::RetryPolicy>(value, false).expect("read back"), retry);
    }
}
