"""Edge to the API server: where it is and who we are, read by kubernetes_asyncio and renewed while we run.

In: a kubeconfig (token, token file, exec plugin, client certificate, OIDC) or a pod's service account.
Out: an `Access` for the next request. Never: a global default configuration; a request to the API server.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from controller.errors import UserError

TOKEN_FILE_SECONDS = 60.0
"""How long a kubeconfig's credentials are used before they are read again: a tokenFile is rotated under us, an exec
plugin's token ends. client-go reads a token file again after a minute as well."""

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where every pod finds its service account (kubernetes.io/docs/tasks/run-application/access-api-from-pod)."""


class Access(msgspec.Struct, frozen=True):
    """How to send one request: base URL without a slash at its end, Authorization header, TLS, proxy."""

    base_url: str
    authorization: str | None
    tls: ssl.SSLContext | None
    server_hostname: str | None
    proxy: str | None


class Credentials:
    """Hands out an `Access`; reads the source again when it is old or the server has said 401."""

    def __init__(self, load: Callable[[], Any], *, is_renewed: bool, monotonic: Callable[[], float]) -> None:
        """`load` is a coroutine function that returns a fresh kubernetes_asyncio Configuration."""
        self._load = load
        self._is_renewed = is_renewed
        self._monotonic = monotonic
        self._lock = asyncio.Lock()
        self._configuration: Any = None
        self._loaded_at = 0.0
        self._tls: ssl.SSLContext | None = None

    async def access(self) -> Access:
        """The access that holds now. Raises what reading the source raises only if there is none yet."""
        if self._configuration is None:
            await self.renew(min_age_seconds=0.0)
        elif self._is_renewed and self._monotonic() - self._loaded_at >= TOKEN_FILE_SECONDS:
            try:
                await self.renew(min_age_seconds=TOKEN_FILE_SECONDS)
            except UserError:
                self._loaded_at = self._monotonic()  # the old ones may still hold; the server will say so
        found = self._configuration
        return Access(
            base_url=found.host.rstrip("/"),
            authorization=await self._authorization(found),
            tls=self._tls,
            server_hostname=found.tls_server_name,
            proxy=found.proxy,
        )

    async def _authorization(self, configuration: Any) -> str | None:
        try:
            found: str | None = await configuration.get_api_key_with_prefix("BearerToken")
        except Exception:  # the token file is being replaced (ConfigException, OSError): the one at hand may still hold
            found = configuration.api_key.get("BearerToken")
        return found

    async def renew(self, *, min_age_seconds: float) -> bool:
        """Reads the source again, unless that was done less than `min_age_seconds` ago. True if it was read."""
        async with self._lock:
            if self._configuration is not None and self._monotonic() - self._loaded_at < min_age_seconds:
                return False
            configuration = await self._load()
            self._tls = _tls_of(configuration)
            self._configuration = configuration
            self._loaded_at = self._monotonic()
            return True


def pod_namespace(service_account: Path = SERVICE_ACCOUNT) -> str | None:
    """The namespace of the pod that this process runs in; None outside of a pod."""
    try:
        return (service_account / "namespace").read_text().strip() or None
    except OSError:
        return None


def _tls_of(configuration: Any) -> ssl.SSLContext | None:
    if not configuration.host.startswith("https"):
        return None
    try:
        context = ssl.create_default_context(cafile=configuration.ssl_ca_cert or None)
        if configuration.cert_file:
            context.load_cert_chain(configuration.cert_file, keyfile=configuration.key_file)
    except (OSError, ssl.SSLError) as error:
        raise UserError(f"the certificates for {configuration.host} cannot be read: {error}") from error
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


async def credentials_of(
    kubeconfig: Path | None,
    context: str | None,
    in_cluster: bool | None,
    *,
    service_account: Path = SERVICE_ACCOUNT,
    monotonic: Callable[[], float] = time.monotonic,
) -> Credentials:
    """Finds the cluster: what is named, else $KUBECONFIG, else ~/.kube/config, else the pod's service account.

    `in_cluster` True takes the service account only, False never. Raises UserError in one line when there is none.
    """
    if in_cluster and kubeconfig is not None:
        raise UserError("--in-cluster and --kubeconfig exclude each other")
    paths = None if in_cluster else _kubeconfig_paths(kubeconfig)
    if paths is not None:
        found = Credentials(_kubeconfig_loader(paths, context), is_renewed=True, monotonic=monotonic)
    elif in_cluster or (in_cluster is None and os.environ.get("KUBERNETES_SERVICE_HOST")):
        found = Credentials(_service_account_loader(service_account), is_renewed=False, monotonic=monotonic)
    else:
        raise UserError(
            "no Kubernetes cluster: there is no --kubeconfig, no $KUBECONFIG, no ~/.kube/config, and this is no pod"
        )
    await found.renew(min_age_seconds=0.0)
    return found


def _kubeconfig_paths(kubeconfig: Path | None) -> str | None:
    if kubeconfig is not None:
        if not kubeconfig.is_file():
            raise UserError(f"kubeconfig {kubeconfig}: no such file")
        return str(kubeconfig)
    named = os.environ.get("KUBECONFIG")
    if named:
        if not any(Path(part).expanduser().is_file() for part in named.split(os.pathsep) if part):
            raise UserError(f"$KUBECONFIG names no file that exists: {named}")
        return named
    usual = Path.home() / ".kube" / "config"
    return str(usual) if usual.is_file() else None


def _kubeconfig_loader(paths: str, context: str | None) -> Callable[[], Any]:
    async def load() -> Any:
        # Imported here: the package costs a second, and most commands speak to no cluster.
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import load_kube_config

        configuration = Configuration()
        try:
            await load_kube_config(config_file=paths, context=context, client_configuration=configuration)
        except Exception as error:  # the library raises ConfigException, AssertionError, TypeError, yaml errors, …
            if isinstance(error, asyncio.CancelledError):
                raise
            raise UserError(f"kubeconfig {paths}: {_line_of(error)}") from error
        if not configuration.host:
            raise UserError(f"kubeconfig {paths}: the cluster has no server")
        return configuration

    return load


def _service_account_loader(folder: Path) -> Callable[[], Any]:
    async def load() -> Any:
        from kubernetes_asyncio.client import Configuration
        from kubernetes_asyncio.config import ConfigException, load_incluster_config

        configuration = Configuration()
        read: Callable[..., None] = load_incluster_config
        try:
            read(
                client_configuration=configuration,
                token_filename=str(folder / "token"),
                cert_filename=str(folder / "ca.crt"),
            )
        except (ConfigException, OSError) as error:
            raise UserError(f"no service account of a pod: {_line_of(error)}") from error
        return configuration

    return load


def _line_of(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return text[:300] if text else f"not a kubeconfig ({type(error).__name__})"
