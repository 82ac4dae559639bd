"""The throwaway certificate of `--tls`.

Guarantees: a fresh key that never outlives the call on disk. Runs the `openssl` command. Raises Unavailable when it cannot.
"""

from __future__ import annotations

import shutil
import ssl
import subprocess
import tempfile
from pathlib import Path

NAMES = "DNS:localhost,DNS:chatgpt.com,DNS:chat.openai.com,IP:127.0.0.1,IP:::1"


class Unavailable(Exception):
    """No certificate can be made; the message says why."""


def context() -> ssl.SSLContext:
    """A server context with a self-signed certificate for the names of this machine and the site's own, valid for two days."""
    program = shutil.which("openssl")
    if program is None:
        raise Unavailable("--tls needs the openssl command to make a throwaway certificate, and there is none on the PATH.")
    with tempfile.TemporaryDirectory(prefix="practice-tls-") as folder:
        key, certificate = Path(folder, "key.pem"), Path(folder, "certificate.pem")
        command = [
            program,
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
            "-subj",
            "/CN=practice site (throwaway)",
            "-addext",
            "subjectAltName=" + NAMES,
            "-keyout",
            str(key),
            "-out",
            str(certificate),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, stdin=subprocess.DEVNULL)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(f"--tls: openssl could not be run ({error}).") from error
        if done.returncode:
            raise Unavailable(f"--tls: openssl made no certificate: {done.stderr.strip()[-300:]}")
        made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        made.load_cert_chain(certificate, key)
    return made
