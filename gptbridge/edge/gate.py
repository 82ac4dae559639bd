"""Secret: how the one send request of a window is held, let go or failed.

Guarantees: armed before the window first navigates, the gate is closed, open for one, or spent. A send by its shape is held once when
open and failed in every other state; everything else continues at once. A guard inside each realm keeps the same states, and a sentry in
a process of its own stops the same requests nearer to the network, so the page does not outlive its gate (GT-11).
Touches one DevTools connection (edge/interception.py) and the sentry. Fails closed: what cannot be judged is failed, and what is held
when this process dies the sentry fails; without a sentry Chrome lets it go (measured), so `shut` comes first in every way out (GT-10).
Threads: events come in the reader thread, which never waits; `shut` and `refuse` may be called from a signal handler.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gptbridge.core import send_request
from gptbridge.core.errors import Failure
from gptbridge.core.page_request import Held, Note, Upload
from gptbridge.edge import guard
from gptbridge.edge.devtools import Refused
from gptbridge.edge.interception import Interception, Part, Realm, Step, Stopped
from gptbridge.edge.reply import Reply

_ACK_S = 2.0
NAVIGATE_S = 30.0


class Sentry(Protocol):
    """Who stands behind the gate, see edge/sentry.py. Each raises Failure("browser") when it does not answer."""

    def watch(self, browser_url: str, target: str, origin: str) -> None: ...
    def ask(self) -> None: ...
    def expect(self, network: str) -> None: ...
    def spare(self, files: bool) -> None: ...


class Gate:
    """The gate of one window. `browser_url` is the browser-level DevTools socket, `site_origin` like `https://chatgpt.com`.

    States: "closed", "open", "spent". `notes` lists every send that was failed or could only be seen; kinds are the realm's,
    `redirect`, `socket` (a frame that left: seen, not stoppable), and `guard:` with what the page used (fetch, xhr, beacon, socket).
    sentry: without one, which is for a window that is only to be closed, the page can outlive this process.
    """

    def __init__(self, browser_url: str, target_id: str, site_origin: str, sentry: Sentry | None = None) -> None:
        self._place = browser_url, target_id, site_origin
        self._sentry = sentry
        self._wire = Interception(browser_url, target_id, site_origin, self)
        self._lock = threading.RLock()  # reentrant: a signal handler may come while the main thread holds it
        self._turn = threading.Condition(self._lock)
        self._state = "closed"
        self._secret = secrets.token_hex(16)
        self._binding = f"b{secrets.token_hex(12)}"
        # Workers shared between windows get one guard for Chrome's whole life, however many gates come and go.
        shared = hashlib.sha256(browser_url.encode()).hexdigest()
        self._shared_secret, self._shared_binding = shared[:32], f"b{shared[32:56]}"
        self._held: Stopped | None = None
        self._view: Held | None = None
        self._fate = ""  # of the held request: "", "released", "refused"
        self._unspent: set[str] = set()
        self._notes: list[Note] = []
        self._needles: tuple[str, ...] = ()
        self._traces = 0
        self._to_the_end = False  # attached, without a drop, until the window was gone
        self._reply = Reply()

    # -- arming and states

    def arm(self) -> None:
        """Closed, on this window and all that belongs to it. Before the first navigation; on a window of a dead owner at once.

        Anything that fails is Failure("site-changed"): without the whole gate nothing is typed.
        """
        try:
            if self._sentry is not None:
                self._sentry.watch(*self._place)  # before us: who attaches first is asked last, after the gate
            self._wire.begin()
            state = self._tell_guard(self._wire.session, "state")
        except Failure as failure:
            self.detach()
            raise Failure("site-changed", f"The request gate could not be armed: {failure.message} Nothing was typed or sent.",
                          "ask-gpt login --quit, then the command again") from failure
        if state != "closed" or self._wire.faults:
            self.detach()
            reason = "; ".join(self._wire.faults) or "no guard in the page"
            raise Failure("site-changed", f"The request gate could not be armed ({reason}). Nothing was typed or sent.")

    def navigate(self, url: str) -> None:
        """Sends the armed window to `url`; Failure("browser") when nothing answers there."""
        reason = self._wire.call("Page.navigate", {"url": url}, self._wire.session, NAVIGATE_S).get("errorText")
        if reason and reason != "net::ERR_ABORTED":  # that one: a page that goes on to another at once
            raise Failure("browser", f"The site cannot be reached ({reason}). Nothing was sent.", "check the network", again=True)

    def open_once(self) -> None:
        """Lets the next send be held instead of failed. Failure("site-changed") when the gate is not whole; it stays closed then."""
        if self._sentry is not None:
            self._sentry.ask()
        with self._lock:
            if self._state != "closed" or self._wire.faults or not self.connected:
                why = "; ".join(("The request gate is not whole any more", *self._wire.faults))
                raise Failure("site-changed", f"{why}. Nothing was sent.")
            self._state = "open"
        if self._tell_guard(self._wire.session, "open") != "open":
            self.shut()
            raise Failure("site-changed", "The page carries no guard of ours. Nothing was sent.")
        for session, realm in list(self._wire.realms.items()):
            if realm.kind == "worker":
                self._wire.post("Runtime.evaluate", {"expression": guard.word(self._secret, "open"), "returnByValue": True}, session)

    def wait(self, timeout: float) -> Held | None:
        """The held request, once every guard is closed behind it; None after `timeout` seconds, or when Chrome or the window is gone."""
        with self._turn:
            self._turn.wait_for(lambda: (self._view is not None and not self._unspent) or self.lost, timeout)
            return self._view

    @property
    def lost(self) -> bool:
        """The connection to Chrome dropped, or the window is gone."""
        return self._wire.lost or self._wire.gone.is_set()

    def release(self, held: Held) -> bool:
        """Lets it go to the site. False when nothing left: Chrome says that it no longer exists, or a part of the gate behind it was not
        whole and it was failed in the browser. Failure("browser") when the connection died meanwhile: then it may have left.
        """
        stopped = self._current(held)
        with self._turn:
            guarded = self._turn.wait_for(lambda: not self._unspent or self._wire.lost, _ACK_S)
        if not (guarded and self._expected(stopped)):
            if self.refuse(held):
                self._reply.end("failed: it was not released")
                return False
            raise Failure("browser", "The connection to Chrome ended while the request was held.")
        self._fate = "released"
        try:
            self._wire.call("Fetch.continueRequest", {"requestId": stopped.handle}, stopped.session)
        except Refused:
            self._reply.end("failed: it no longer existed")
            return False
        return True

    def _expected(self, stopped: Stopped) -> bool:
        """The sentry knows of it, and will let it pass once. One that is gone could not fail the next."""
        try:
            if self._sentry is not None:
                self._sentry.expect(stopped.network)
            return True
        except Failure:
            return False

    def refuse(self, held: Held) -> bool:
        """Fails it in the browser; it never reaches the site. False when that could not be confirmed (the connection died)."""
        stopped = self._current(held)
        self._fate = "refused"
        try:
            self._wire.call("Fetch.failRequest", {"requestId": stopped.handle, "errorReason": "Aborted"}, stopped.session, _ACK_S)
        except Refused:
            return True  # Chrome has no such request any more: it cannot leave
        except Failure:
            return False
        return True

    def shut(self) -> None:
        """Fails what is held first, then lets nothing through any more, and stays attached. Safe at any time, also twice."""
        with self._lock:
            self._state = "spent" if self._state == "spent" or self._view else "closed"
            held, stopped, unread = self._view, self._held, self._wire.take_unread()
        if held and stopped and not self._fate:
            self.refuse(held)
        for waiting in unread:
            self._fail(waiting, None)
        for session, realm in list(self._wire.realms.items()):
            self._wire.post("Runtime.evaluate", {"expression": guard.word(self._secret_of(realm), "close")}, session)

    close = shut

    def still(self) -> None:
        """See Interception.still: shut, and before the window is closed."""
        self._wire.still()

    def detach(self) -> None:
        """Ends the connection. Only when the window is gone, or nothing of it matters: Chrome continues whatever is still stopped."""
        self._to_the_end = self.connected and self._wire.gone.is_set()
        self._wire.end()

    def gone(self, timeout: float) -> bool:
        """Waits for the window to be gone."""
        return self._wire.gone.wait(timeout)

    # -- what was seen

    def watch(self, text: str) -> None:
        """Looks for this text in every POST body, beacon and socket frame from now on (GT-06)."""
        self._needles = send_request.needles(text)

    def traces(self) -> int:
        """How often the watched text was seen leaving in anything but the held request; what was failed did not leave."""
        return self._traces

    def spare(self, files: bool) -> None:
        """See Interception.spare. A send to another host is failed by the guard in the page meanwhile; the gate must be closed."""
        if self._sentry is not None:
            self._sentry.spare(files)
        self._wire.spare(files)

    def uploads(self) -> Sequence[Upload]:
        """Every file that the page began to upload since the gate was armed, in order."""
        return self._wire.uploads.found()

    def notes(self) -> Sequence[Note]:
        return tuple(self._notes)

    @property
    def state(self) -> str:
        return self._state

    @property
    def connected(self) -> bool:
        """Its connection never dropped since it was armed; after `detach`: not before the window was gone."""
        return self._to_the_end or self._wire.whole

    # -- the answer to the released request

    def reply(self, timeout: float) -> bytes | None:
        """The next bytes of the answer as they arrive; None when none came within `timeout` seconds or the answer has ended."""
        return self._reply.next(timeout)

    @property
    def reply_status(self) -> int | None:
        return self._reply.status

    @property
    def reply_ended(self) -> str | None:
        """None while open; "finished", or "failed: <reason>". Bytes may still wait in `reply`."""
        return self._reply.ended

    # -- what the interception tells, in its reader thread

    def realm_steps(self, realm: Realm) -> Sequence[Step]:
        binding = self._shared_binding if realm.outlives_us else self._binding
        state = "open" if self._state == "open" and realm.kind == "worker" else "closed"
        script = guard.source(self._secret_of(realm), binding, state=state, keep=realm.outlives_us)
        # Only an enabled Runtime gives new documents the binding before their first script; ChromeDriver enables it too.
        steps: list[Step] = [("Runtime.enable", {}), ("Runtime.addBinding", {"name": binding})]
        if realm.outlives_us or realm.kind == "worker":
            return [*steps, ("Runtime.evaluate", {"expression": script})]
        return [*steps, ("Page.addScriptToEvaluateOnNewDocument", {"source": script, "runImmediately": True})]

    def send_stopped(self, stopped: Stopped, part: Part) -> None:
        if stopped.redirected and self._held is not None and stopped.network == self._held.network:
            self._fail(stopped, part, "redirect")
            return
        with self._turn:
            if self._state != "open" or stopped.kind not in ("page", "worker"):
                self._fail(stopped, part)
                return
            self._state = "spent"
            self._held = stopped
            self._view = send_request.held(stopped.handle, stopped.path, stopped.account_id, part)
            # From here on no realm may send, even if we die: all are closed before the request can be released.
            for session, realm in list(self._wire.realms.items()):
                if realm.may_open:
                    self._unspent.add(session)
                    self._wire.post("Runtime.evaluate", {"expression": guard.word(self._secret, "spend")}, session,
                                    self._acknowledged(session))
            self._turn.notify_all()

    def other_passes(self, stopped: Stopped, body: str | None) -> None:
        if body and send_request.carries(body, self._needles):
            self._traces += 1

    def unjudged(self, stopped: Stopped) -> None:
        self._notes.append(Note(stopped.kind, stopped.path))

    def event(self, method: str, params: dict[str, Any], session: str) -> None:
        if method == "Network.webSocketFrameSent":
            self._frame(params)
        elif method == "Runtime.bindingCalled":
            self._guard_said(params)
        elif method.startswith("Network.") and self._held is not None and params.get("requestId") == self._held.network:
            self._reply.heard(method, params, lambda asked, about, then: self._wire.post(asked, about, session, then))

    def left(self, session: str) -> None:
        with self._turn:
            self._unspent.discard(session)
            if self._held is not None and session == self._held.session:
                self._reply.cut("failed: its window is closed")
            self._turn.notify_all()

    def dropped(self) -> None:
        with self._turn:
            if self._fate == "released":
                self._reply.cut("failed: the connection to Chrome ended")
            self._turn.notify_all()

    def _acknowledged(self, session: str) -> Callable[[dict[str, Any] | None, str], None]:
        def then(result: dict[str, Any] | None, reason: str) -> None:
            with self._turn:
                if result is not None or session not in self._wire.realms:
                    self._unspent.discard(session)
                    self._turn.notify_all()

        return then

    def _fail(self, stopped: Stopped, part: Part, kind: str = "") -> None:
        self._notes.append(Note(kind or stopped.kind, stopped.path, send_request.message_ids(part)))
        self._wire.fail(stopped)

    def _frame(self, params: dict[str, Any]) -> None:
        frame = params.get("response", {})
        text = send_request.frame_text(int(frame.get("opcode", 1)), str(frame.get("payloadData", "")))
        part = send_request.sending_part(text)
        if part is not None:
            self._notes.append(Note("socket", "", send_request.message_ids(part)))
        if part is not None or send_request.carries(text, self._needles):
            self._traces += 1

    def _guard_said(self, params: dict[str, Any]) -> None:
        if params.get("name") not in (self._binding, self._shared_binding):
            return
        try:
            said = json.loads(params["payload"])
            self._notes.append(Note(f"guard:{said['kind']}", str(said["path"]), tuple(str(one) for one in said["ids"])))
        except (ValueError, KeyError, TypeError):
            self._notes.append(Note("guard:unreadable", ""))

    # -- small things

    def _current(self, held: Held) -> Stopped:
        stopped = self._held
        if stopped is None or stopped.handle != held.handle or self._fate:
            raise ValueError("this request is not held any more")
        return stopped

    def _secret_of(self, realm: Realm) -> str:
        return self._shared_secret if realm.outlives_us else self._secret

    def _tell_guard(self, session: str, said: str) -> str:
        answer = self._wire.call("Runtime.evaluate", {"expression": guard.word(self._secret, said), "returnByValue": True}, session)
        return str(answer.get("result", {}).get("value"))
