"""What may not reach the log does not, and what the fold reads stays."""

from __future__ import annotations

from typing import Any

import pytest

from controller.watch.redact import (
    MESSAGE_CHARACTERS,
    Redaction,
    clean_annotations,
    clean_message,
    clean_messages,
    clean_text,
)

JWT = "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJzb21lb25lIn0.c2lnbmF0dXJl"
PEM = "-----BEGIN RSA PRIVATE KEY-----\nMIIEow\nIBAA\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--api-token=abc123", "--api-token=REDACTED"),
        ("--password hunter2 --steps 5", "--password REDACTED --steps 5"),
        ("export AWS_SECRET_ACCESS_KEY=wJalr/abc; run", "export AWS_SECRET_ACCESS_KEY=REDACTED; run"),
        ("DB_PASSWORD='a b c' python x.py", "DB_PASSWORD=REDACTED python x.py"),
        ('{"token": "abc", "step": 3}', '{"token": REDACTED, "step": 3}'),
        ("Authorization: Bearer abc.def", "Authorization: Bearer REDACTED"),
        ("authorization=Basic dXNlcjpwdw==", "authorization=Basic REDACTED"),
        ("sent bearer a1b2c3d4e5f6", "sent bearer REDACTED"),
        (f"got {JWT} back", "got REDACTED back"),
        ("key AKIAIOSFODNN7EXAMPLE used", "key REDACTED used"),
        ("ghp_0123456789abcdefghijABCDEFGHIJ", "REDACTED"),
        ("hf_abcdefghijklmnopqrstuvwx", "REDACTED"),
        ("s3://user:pass@host/bucket", "s3://user:REDACTED@host/bucket"),
        ("https://0123456789abcdef0123@github.com/x", "https://REDACTED@github.com/x"),
        ("GET https://x/y?a=1&X-Amz-Signature=deadbeef&b=2", "GET https://x/y?a=1&X-Amz-Signature=REDACTED&b=2"),
        (f"before {PEM} after", "before REDACTED after"),
        ("-----BEGIN PRIVATE KEY-----\ncut off", "REDACTED"),
    ],
)
def test_what_looks_like_a_secret_is_taken_out(text: str, expected: str) -> None:
    assert clean_text(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "0/3 nodes are available: 3 Insufficient nvidia.com/gpu.",
        'secret "training-data" not found',
        'MountVolume.SetUp failed for volume "kube-api-access" : configmap "kube-root-ca.crt" not found',
        'Failed to pull image "ghcr.io/a/b@sha256:0123456789abcdef": https://ghcr.io/v2/: 401 Unauthorized',
        "Back-off pulling image",
        "OOMKilled",
        "--learning-rate=0.1",
        "--secret-file /etc/x/y",
        "python -m trainer --steps 5",
        "loss: 0.3, tokens 51200",
        "basic training loop",
        "",
    ],
)
def test_what_explains_a_failure_stays(text: str) -> None:
    assert clean_text(text) == text


def test_a_message_keeps_its_end() -> None:
    text = "x" * 5000 + "the reason"
    kept = clean_message(text)
    assert (len(kept), kept[0], kept[-10:]) == (MESSAGE_CHARACTERS, "…", "the reason")
    assert clean_message("y" * MESSAGE_CHARACTERS) == "y" * MESSAGE_CHARACTERS


def test_every_message_of_a_status_is_cleaned_wherever_it_stands() -> None:
    status = {
        "message": "password=a",
        "conditions": [{"type": "Ready", "message": "token=b", "reason": "secret=stays"}],
        "futureField": [{"deep": {"message": "pwd=c"}}],
        "message2": "password=d",
    }
    assert clean_messages(status) == {
        "message": "password=REDACTED",
        "conditions": [{"type": "Ready", "message": "token=REDACTED", "reason": "secret=stays"}],
        "futureField": [{"deep": {"message": "pwd=REDACTED"}}],
        "message2": "password=d",
    }


def test_annotations() -> None:
    assert clean_annotations(
        {
            "kubectl.kubernetes.io/last-applied-configuration": '{"env": "A"}',
            "tfjob.kubeflow.org/api-version": "v1alpha2",
            "tfjob.kubeflow.org/retryable-exit-codes": "1,130,137-143",
            "example.com/api-token": "abc",
            "example.com/note": "use --password=abc",
        }
    ) == {
        "tfjob.kubeflow.org/api-version": "v1alpha2",
        "tfjob.kubeflow.org/retryable-exit-codes": "1,130,137-143",
        "example.com/api-token": "REDACTED",
        "example.com/note": "use --password=REDACTED",
    }


HASH_A = Redaction(b"key").value_hash("A", "one")

SPECS: list[tuple[str, Any, Any]] = [
    ("value", {"env": [{"name": "A", "value": "one"}]}, {"env": [{"name": "A", "valueHash": HASH_A}]}),
    (
        "reference",
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
        {"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]},
    ),
    ("no value", {"env": [{"name": "A"}, {"name": "B", "value": None}]}, {"env": [{"name": "A"}, {"name": "B"}]}),
    ("a map", {"env": {"A": "one"}}, {"env": "REDACTED"}),
    ("strings", {"env": ["A=one"]}, {"env": ["REDACTED"]}),
    ("unknown keys", {"env": [{"name": "A", "val": "one"}]}, {"env": [{"name": "A"}]}),
    ("nothing", {"env": None}, {"env": None}),
    (
        "deep in a job",
        {
            "tfReplicaSpecs": {
                "Worker": {"template": {"spec": {"initContainers": [{"env": [{"name": "A", "value": "one"}]}]}}}
            }
        },
        {
            "tfReplicaSpecs": {
                "Worker": {"template": {"spec": {"initContainers": [{"env": [{"name": "A", "valueHash": HASH_A}]}]}}}
            }
        },
    ),
    (
        "arguments",
        {"args": ["--token", "abc", "--steps", "5", "--password=x"], "command": ["sh", "-c", "PASSWORD=x run"]},
        {
            "args": ["--token", "REDACTED", "--steps", "5", "--password=REDACTED"],
            "command": ["sh", "-c", "PASSWORD=REDACTED run"],
        },
    ),
    (
        "probe headers",
        {"httpGet": {"httpHeaders": [{"name": "Authorization", "value": "one"}]}},
        {
            "httpGet": {
                "httpHeaders": [
                    {"name": "Authorization", "valueHash": Redaction(b"key").value_hash("Authorization", "one")}
                ]
            }
        },
    ),
    ("options", {"options": {"password": "x", "share": "y"}}, {"options": {"password": "REDACTED", "share": "y"}}),
    (
        "what the fold reads",
        {
            "containers": [
                {"name": "tensorflow", "image": "a/b:1", "ports": [{"name": "tfjob-port", "containerPort": 1}]}
            ],
            "replicas": 3,
            "restartPolicy": "ExitCode",
            "metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}},
            "suspend": False,
            "odd": None,
        },
        None,
    ),
    ("no object", "text", "text"),
    ("null", None, None),
]


@pytest.mark.parametrize(("spec", "expected"), [case[1:] for case in SPECS], ids=[case[0] for case in SPECS])
def test_specs(spec: Any, expected: Any) -> None:
    assert Redaction(b"key").clean_spec(spec) == (spec if expected is None else expected)


def test_a_hash_tells_change_and_depends_on_key_name_and_value() -> None:
    redaction = Redaction(b"key")
    hashes = {
        redaction.value_hash("A", "one"),
        redaction.value_hash("A", "two"),
        redaction.value_hash("B", "one"),
        Redaction(b"other").value_hash("A", "one"),
    }
    assert len(hashes) == 4
    assert all(len(each) == 16 for each in hashes)
    assert redaction.value_hash("A", "one") == Redaction(b"key").value_hash("A", "one")
    assert Redaction(b"long" * 100).value_hash("A", "one")
