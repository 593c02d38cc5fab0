"""Keys for a secure deployment on loopback: an authority, the SuperLink's certificate, and a key pair per SuperNode.

For tests on one machine. In production the authority's key stays off the servers, and every node makes its own pair.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


@dataclass
class Files:
    """Where they lie, as options of Flower's commands."""

    ca: Path
    server: list[str]
    nodes: list[list[str]]
    public: list[Path]


def write(folder: Path, nodes: int) -> Files:
    """Make everything anew; private keys can be read by their owner only."""
    folder.mkdir(parents=True, exist_ok=True)
    authority, link = ec.generate_private_key(ec.SECP384R1()), ec.generate_private_key(ec.SECP384R1())
    root = _certificate("Sortition test authority", authority, None, authority)
    leaf = _certificate("localhost", link, root, authority)
    (folder / "ca.crt").write_bytes(root.public_bytes(serialization.Encoding.PEM))
    (folder / "server.pem").write_bytes(leaf.public_bytes(serialization.Encoding.PEM))
    _secret(folder / "server.key", link)
    server = ["--ssl-ca-certfile", "ca.crt", "--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"]
    files = Files(folder / "ca.crt", [o if o.startswith("--") else str(folder / o) for o in server], [], [])
    for node in range(nodes):
        private, public = folder / f"node-{node}", folder / f"node-{node}.pub"
        key = ec.generate_private_key(ec.SECP384R1())
        _secret(private, key, serialization.PrivateFormat.OpenSSH)
        public.write_bytes(
            key.public_key().public_bytes(serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH)
        )
        options = ["--auth-supernode-private-key", str(private), "--auth-supernode-public-key", str(public)]
        files.nodes.append(options)
        files.public.append(public)
    return files


def _certificate(
    name: str, key: ec.EllipticCurvePrivateKey, issuer: x509.Certificate | None, signer: ec.EllipticCurvePrivateKey
) -> x509.Certificate:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject if issuer is None else issuer.subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
        .sign(signer, hashes.SHA256())
    )


def _secret(
    path: Path,
    key: ec.EllipticCurvePrivateKey,
    form: serialization.PrivateFormat = serialization.PrivateFormat.TraditionalOpenSSL,
) -> None:
    path.touch(mode=0o600)
    path.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, serialization.NoEncryption()))
