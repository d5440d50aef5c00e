"""`tfjob uninstall`: removes what the manifests' deletion leaves in a cluster; `--dry-run` only says what that is.

In: an admin's kubeconfig. Out: a line for each thing. Never: anything while a controller holds the Lease; Postgres,
where the log stays until a person drops it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import typer

from controller.errors import UserError

if TYPE_CHECKING:
    from controller.kube import KubeClient

CRD = "tfjobs.kubeflow.org"
CRD_PATH = f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{CRD}"
PAGE = "500"
Json = dict[str, Any]


class Left(NamedTuple):
    """One thing that is left: what it is, and where."""

    words: str
    path: str
    pod: Json | None = None
    """Set for a pod that our finalizer holds: it is released, not deleted."""


def uninstall(
    dry_run: bool = typer.Option(False, "--dry-run", help="Say what would be removed; change nothing."),
    with_crd: bool = typer.Option(False, "--crd", help="Remove the CRD too, and with it every TFJob and its pods."),
    lease_namespace: str = typer.Option("tfjob-system", help="The namespace of the Lease."),
    lease_name: str = typer.Option("tfjob-controller", help="The Lease's name."),
    force: bool = typer.Option(False, "--force", help="Although the Lease has a holder: it was killed, not stopped."),
    kubeconfig: Path | None = typer.Option(None, help="Unset: $KUBECONFIG, or ~/.kube/config."),
    context: str | None = typer.Option(None, help="Context of the kubeconfig."),
) -> None:
    """Remove what an installation leaves behind: the Lease, held pods, and, when told, the CRD."""
    import asyncio

    asyncio.run(_run(dry_run, with_crd, f"{lease_namespace}/{lease_name}", force, kubeconfig, context))


async def _run(
    dry_run: bool, with_crd: bool, lease: str, force: bool, kubeconfig: Path | None, context: str | None
) -> None:
    from controller.kube import ApiError, connect

    async with await connect(kubeconfig, context, None) as client:
        try:
            found, holder = await _left(client, lease, with_crd)
            if holder and not force and not dry_run:
                raise UserError(
                    f"the Lease {lease} is held by {holder}: delete the controller's manifests first "
                    "(--force: it was killed and cannot give it back)"
                )
            for each in found:
                typer.echo(f"{'would remove' if dry_run else 'remove'} {each.words}")
                if not dry_run:
                    await _remove(client, each)
        except ApiError as error:
            raise UserError(f"the API server refused: {error}", exit_code=1) from error
    if not found:
        typer.echo("nothing is left")
    typer.echo("The log in Postgres stays: drop its database when its history is not wanted any more.")


async def _left(client: KubeClient, lease: str, with_crd: bool) -> tuple[list[Left], str]:
    """What is left, in the order in which it is removed, and who holds the Lease. Raises ApiError."""
    from controller.model.names import JOB_NAME_LABEL, POD_FINALIZER

    found = []
    async for pod in _pods(client, JOB_NAME_LABEL):
        metadata = pod["metadata"]
        if POD_FINALIZER in (metadata.get("finalizers") or ()):
            words = f"the finalizer {POD_FINALIZER} from pod {metadata['namespace']}/{metadata['name']}"
            found.append(Left(words, "", metadata))
    namespace, _, name = lease.partition("/")
    path = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}"
    held = await _get(client, path)
    if held:
        found.append(Left(f"the Lease {lease}", path))
    if with_crd and await _get(client, CRD_PATH):
        jobs = (await client.request("GET", "/apis/kubeflow.org/v1/tfjobs", query={"limit": "1"})).json()
        count = len(jobs["items"]) + int(jobs["metadata"].get("remainingItemCount") or 0)
        found.append(Left(f"the CRD {CRD} with {count} TFJobs", CRD_PATH))
    return found, ((held or {}).get("spec") or {}).get("holderIdentity") or ""


async def _get(client: KubeClient, path: str) -> Json | None:
    from controller.kube import NotFound

    try:
        found: Json = (await client.request("GET", path)).json()
    except NotFound:
        return None
    return found


async def _pods(client: KubeClient, selector: str) -> AsyncIterator[Json]:
    go_on: str | None = None
    while True:
        query = {"labelSelector": selector, "limit": PAGE, "continue": go_on}
        page = (await client.request("GET", "/api/v1/pods", query=query)).json()
        for pod in page["items"]:
            yield pod
        go_on = page["metadata"].get("continue")
        if not go_on:
            return


async def _remove(client: KubeClient, left: Left) -> None:
    from controller.act import Actor, Request
    from controller.kube import NotFound
    from controller.model.actions import ReleasePod, Result
    from controller.model.settings import PolicySettings

    if left.pod is None:
        with suppress(NotFound):
            await client.request("DELETE", left.path)
        return
    name, namespace, uid = (left.pod[field] for field in ("name", "namespace", "uid"))
    outcome = await Actor(client, PolicySettings()).carry_out(
        Request(ReleasePod(name, uid), "", namespace, "", 0, 0), 0
    )
    if outcome.result is not Result.DONE:
        raise UserError(f"pod {namespace}/{name} is not released: {outcome.message or outcome.reason}", exit_code=1)
