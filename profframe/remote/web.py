"""Rules for the servers that a URL may lead to.

A person has typed the URL, and trusts its host. A server can redirect to another one, and a name
can stand for any address, so both are checked where the connection is made: nothing is asked for on
the way to an address that only programs on this machine, or in its data center, should reach.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from aiohttp import ClientSession, ClientTimeout, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver
from yarl import URL

from profframe.errors import SourceError

Address: TypeAlias = ipaddress.IPv4Address | ipaddress.IPv6Address

_METADATA: Final = frozenset(
    map(
        ipaddress.ip_address,
        (
            "100.100.100.200", "168.63.129.16", "169.254.169.254", "192.0.0.192",
            "fd00:ec2::254", "fd20:ce::254",
        ),
    )
)  # fmt: skip
"""Where clouds give out the credentials of a machine."""
_CONNECT_S: Final = 30
_READ_S: Final = 60
"""Seconds without a byte; a large file may take as long as it needs."""
_NAT64: Final = ipaddress.IPv6Network("64:ff9b::/96")


@dataclass(frozen=True, slots=True)
class Typed:
    """A URL as typed, and the hosts that it may lead to.

    Examples
    --------
    >>> typed = Typed("https", "hub.example")
    >>> typed.check("https", "cdn.example")
    >>> typed.check("http", "hub.example")
    Traceback (most recent call last):
    profframe.errors.SourceError: hub.example leads to http://hub.example, which is not encrypted: \
refused; give that URL if you trust it
    """

    scheme: str
    host: str

    @classmethod
    def of(cls, url: str) -> Typed:
        """Parse a URL."""
        parts = URL(url)
        return cls(parts.scheme, parts.host or "")

    @property
    def names_itself(self) -> bool:
        """Whether the host is an address, or says that it is this machine."""
        is_localhost = self.host == "localhost" or self.host.endswith(".localhost")
        return is_localhost or _address(self.host) is not None

    def check(self, scheme: str, host: str) -> None:
        """Refuse a step to a host, before its name is resolved, with a SourceError."""
        is_plain = scheme != "https"
        if is_plain and (self.scheme == "https" or host != self.host):
            raise self._refused(f"{scheme}://{host}", "is not encrypted")
        address = _address(host)
        if address is not None:
            self.check_address(host, address)

    def check_address(self, host: str, address: Address) -> None:
        """Refuse an address that a host has, with a SourceError."""
        if host == self.host and self.names_itself:
            return
        inner = _inner(address)
        if host != self.host and not (inner.is_global and not inner.is_multicast):
            raise self._refused(f"{host} ({address})", "is not a public address")
        if _is_of_machine(inner):
            raise self._refused(f"{host} ({address})", "is an address of this machine or its cloud")

    def _refused(self, where: str, why: str) -> SourceError:
        return SourceError(
            f"{self.host} leads to {where}, which {why}: refused; give that URL if you trust it"
        )


def client(url: str) -> Any:
    """The factory of fsspec's HTTP client for a URL, with checked hosts."""
    return partial(_session, typed=Typed.of(url))


async def _session(*, typed: Typed, **options: Any) -> ClientSession:
    limits = {"timeout": ClientTimeout(total=None, sock_connect=_CONNECT_S, sock_read=_READ_S)}
    return ClientSession(connector=_Connector(typed), **{**limits, **options})


class _Connector(TCPConnector):
    """Connects to checked hosts: also those that a server redirects to."""

    def __init__(self, typed: Typed) -> None:
        super().__init__(resolver=_Resolver(typed))
        self._typed = typed

    async def connect(self, req: Any, *args: Any, **options: Any) -> Any:
        """A connection for a request, of which each redirect has its own."""
        self._typed.check(req.url.scheme, req.url.host or "")
        return await super().connect(req, *args, **options)


class _Resolver(AbstractResolver):
    """Resolves names to checked addresses, and the connection goes to these."""

    def __init__(self, typed: Typed) -> None:
        self._typed = typed
        self._names = DefaultResolver()

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        """Addresses of a host; a SourceError if one of them is refused."""
        results = await self._names.resolve(host, port, family)
        for result in results:
            address = _address(result["host"])
            if address is not None:
                self._typed.check_address(host, address)
        return results

    async def close(self) -> None:
        """End the resolver."""
        await self._names.close()


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None


def _inner(address: Address) -> Address:
    """The address of version 4 in one of version 6 that leads to it."""
    if isinstance(address, ipaddress.IPv4Address):
        return address
    if address in _NAT64:
        return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return address.ipv4_mapped or address.sixtofour or address


def _is_of_machine(address: Address) -> bool:
    return (
        address.is_loopback
        or address.is_link_local
        or address.is_unspecified
        or address.is_multicast
        or address in _METADATA
    )
