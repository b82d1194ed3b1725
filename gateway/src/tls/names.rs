//! The names in a certificate. Pure.

use rustls::pki_types::CertificateDer;
use std::net::{Ipv4Addr, Ipv6Addr};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;

/// The subject alternative names of a certificate that was verified, each with its kind, so that
/// a name of one kind cannot pass for one of another: `dns:`, `uri:`, `ip:` or `email:`.
pub fn names_of(certificate: &CertificateDer<'_>) -> Vec<String> {
    let Ok((_, certificate)) = parse_x509_certificate(certificate) else {
        return Vec::new();
    };
    let Ok(Some(names)) = certificate.subject_alternative_name() else {
        return Vec::new();
    };
    names.value.general_names.iter().filter_map(text).collect()
}

fn text(name: &GeneralName<'_>) -> Option<String> {
    Some(match name {
        GeneralName::DNSName(name) => format!("dns:{}", name.to_ascii_lowercase()),
        GeneralName::URI(uri) => format!("uri:{uri}"),
        GeneralName::RFC822Name(address) => format!("email:{address}"),
        GeneralName::IPAddress(bytes) => match bytes.len() {
            4 => format!("ip:{}", Ipv4Addr::from(<[u8; 4]>::try_from(*bytes).ok()?)),
            16 => format!("ip:{}", Ipv6Addr::from(<[u8; 16]>::try_from(*bytes).ok()?)),
            _ => return None,
        },
        _ => return None,
    })
}
