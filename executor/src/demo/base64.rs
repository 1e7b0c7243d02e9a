//! Base64 (RFC 4648, with padding), for pictures and for the tools that encode and decode text.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

pub(super) fn encode(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let group = chunk.iter().fold(0u32, |group, byte| group << 8 | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for place in 0..4 {
            let index = (group >> (18 - 6 * place) & 63) as usize;
            text.push(if place <= chunk.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    text
}

/// # Errors
/// When the text is no canonical base64: a stranger among the characters, a wrong length, bits left over.
pub(super) fn decode(text: &str) -> Result<Vec<u8>, String> {
    let wrong = || "this is no base64".to_owned();
    if !text.len().is_multiple_of(4) {
        return Err(wrong());
    }
    let bare = text.strip_suffix("==").or_else(|| text.strip_suffix('=')).unwrap_or(text);
    let mut bytes = Vec::with_capacity(text.len() / 4 * 3);
    let (mut bits, mut held) = (0u32, 0u32);
    for byte in bare.bytes() {
        let value = ALPHABET.iter().position(|known| *known == byte).ok_or_else(wrong)?;
        bits = bits << 6 | u32::try_from(value).map_err(|_| wrong())?;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held & 255) as u8);
            bits &= (1 << held) - 1;
        }
    }
    if bits == 0 && encode(&bytes) == text { Ok(bytes) } else { Err(wrong()) }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_examples_of_the_standard() {
        for (plain, coded) in [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")] {
            assert_eq!(encode(plain.as_bytes()), coded);
        }
        for bad in ["Z", "Zg=", "Zh==", "====", "Z===", "Zg==Zg==", "Zm9v\n", "Zm9é"] {
            assert!(decode(bad).is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn what_was_encoded_comes_back(bytes: Vec<u8>) {
            prop_assert_eq!(decode(&encode(&bytes)).unwrap(), bytes);
        }
    }
}
