"""Keys and certificates of a cluster. Each has its own CA, so that a client of one refuses the other."""

from __future__ import annotations

import datetime
import ipaddress
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from pathlib import Path

_VALID = datetime.timedelta(days=30)
_SKEW = datetime.timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ClusterPki:
    """The key material of a cluster, as files below one folder."""

    folder: Path

    @property
    def ca(self) -> Path:
        """Certificate of the cluster's CA."""
        return self.folder / "ca.crt"

    def certificate(self, name: str) -> Path:
        """Return the certificate file of ``apiserver``, ``kubelet`` or ``kubelet-client``."""
        return self.folder / f"{name}.crt"

    def key(self, name: str) -> Path:
        """Return the key file of ``apiserver``, ``kubelet``, ``kubelet-client`` or ``service-account``."""
        return self.folder / f"{name}.key"


def create(folder: Path, cluster: str) -> ClusterPki:
    """Make a CA and everything it signs."""
    pki = ClusterPki(folder)
    folder.mkdir(parents=True, exist_ok=True)
    ca_key = ec.generate_private_key(ec.SECP256R1())
    ca_name = _name(f"{cluster} lab CA")
    ca = (
        _builder(ca_name, ca_name, ca_key)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=True,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=True,
                crl_sign=True,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
        .sign(ca_key, hashes.SHA256())
    )
    pki.ca.write_bytes(ca.public_bytes(serialization.Encoding.PEM))
    server, client = ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH
    subjects = (
        ("apiserver", _name("kube-apiserver"), server),
        ("kubelet", _name("system:node"), server),
        ("kubelet-client", _name("kube-apiserver-kubelet-client", "system:masters"), client),
    )
    for name, subject, usage in subjects:
        key = ec.generate_private_key(ec.SECP256R1())
        leaf = _builder(subject, ca_name, key).add_extension(x509.ExtendedKeyUsage([usage]), critical=False)
        leaf = leaf.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        leaf = leaf.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(ca_key.public_key()), critical=False
        )
        if usage is server:
            names = [x509.IPAddress(ipaddress.IPv4Address("127.0.0.1")), x509.DNSName("localhost")]
            leaf = leaf.add_extension(x509.SubjectAlternativeName(names), critical=False)
        pki.certificate(name).write_bytes(
            leaf.sign(ca_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        )
        _write_key(pki.key(name), key)
    _write_key(pki.key("service-account"), ec.generate_private_key(ec.SECP256R1()))
    return pki


def write_private(path: Path, content: bytes) -> None:
    """Write a file that the user alone may read, from its first byte on."""
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(content)


def _write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    encoding, format_ = serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL
    write_private(path, key.private_bytes(encoding, format_, serialization.NoEncryption()))


def _name(common_name: str, organisation: str | None = None) -> x509.Name:
    attributes = [x509.NameAttribute(NameOID.COMMON_NAME, common_name)]
    if organisation:
        attributes.append(x509.NameAttribute(NameOID.ORGANIZATION_NAME, organisation))
    return x509.Name(attributes)


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + _VALID)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
