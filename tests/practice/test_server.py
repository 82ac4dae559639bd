"""The practice site's endpoints that read: shapes, bearer, list, pages, the switchboard, the real process."""

from __future__ import annotations

import http.client
import json
import re
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator

import pytest

from gptbridge.practice import pages, samples
from gptbridge.practice.scenarios import SCENARIOS
from gptbridge.practice.server import PracticeServer

from .server_client import Answer, Client, branch, send_body


@pytest.fixture(scope="module")
def one() -> Iterator[PracticeServer]:
    with PracticeServer() as site:
        yield site


@pytest.fixture
def client(one: PracticeServer) -> Client:
    one.world.reset()
    return Client(one)


def test_session_signed_in(client: Client) -> None:
    answer = client.call("GET", "/api/auth/session")
    body = answer.json
    assert answer.status == 200 and "oai-did=" in answer.headers["set-cookie"]
    assert body["user"]["id"] == "user-0000" and "WARNING_BANNER" in body
    uuid.UUID(body["account"]["id"])
    assert len(body["accessToken"].split(".")) == 3
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", body["expires"])


def test_session_signed_out_and_other_account(client: Client) -> None:
    first = client.call("GET", "/api/auth/session").json
    client.scenario("signed-out")
    assert list(client.call("GET", "/api/auth/session").json) == ["WARNING_BANNER"]
    token = {"Authorization": "Bearer " + first["accessToken"]}
    assert client.call("GET", "/backend-api/me", headers=token).status == 401
    client.scenario("signed-out", on=False)
    client.scenario("other-account")
    other = client.call("GET", "/api/auth/session").json
    assert other["user"]["id"] == "user-0001" and other["account"]["id"] != first["account"]["id"]
    assert client.call("GET", "/backend-api/me", headers=token).status == 401
    assert client.call("GET", "/backend-api/me").json["id"] == "user-0001"


def test_without_bearer_a_conversation_is_inaccessible_and_the_rest_unauthorized(client: Client) -> None:
    sample = samples.conversation(1)
    ident = sample["conversation_id"]
    client.call("PUT", f"/practice/conversations/{ident}", sample)
    assert client.call("GET", f"/backend-api/conversation/{ident}").status == 200
    answer = client.call("GET", f"/backend-api/conversation/{ident}", bearer=False)
    assert answer.status == 404
    assert answer.json["detail"]["code"] == "conversation_inaccessible"
    assert answer.json["detail"]["conversation_id"] == ident and answer.json["detail"]["can_retry"] is False
    for path in ("conversations", "me", "models", f"conversation/{ident}/interpreter/download", "nonsense"):
        answer = client.call("GET", f"/backend-api/{path}", bearer=False)
        assert (answer.status, answer.json) == (401, {"detail": {"message": "Unauthorized - Access token is missing"}})
    assert client.call("GET", "/backend-api/nonsense").status == 404
    client.scenario("other-account")
    assert client.call("GET", f"/backend-api/conversation/{ident}").json["detail"]["code"] == "conversation_inaccessible"
    assert client.call("GET", "/backend-api/conversations").json["items"] == []


def test_workspace_header(client: Client) -> None:
    client.call("PUT", "/practice/conversations/abc-1", samples.conversation(1))
    wrong = {"Chatgpt-Account-Id": str(uuid.uuid4())}
    right = {"Chatgpt-Account-Id": client.call("GET", "/api/auth/session").json["account"]["id"]}
    assert client.call("GET", "/backend-api/conversation/abc-1", headers=wrong).status == 404
    assert client.call("GET", "/backend-api/conversations", headers=wrong).json["items"] == []
    assert client.call("GET", "/backend-api/conversation/abc-1", headers=right).status == 200


def test_list_pages_order_and_limit(client: Client) -> None:
    for number in range(5):
        sample = samples.conversation(1, title=f"Talk {number}", start=samples.START + 1000 * number)
        client.call("PUT", f"/practice/conversations/{sample['conversation_id']}", sample)
    body = client.call("GET", "/backend-api/conversations?offset=1&limit=2&order=updated").json
    assert [item["title"] for item in body["items"]] == ["Talk 3", "Talk 2"]
    assert body["total"] is None and (body["offset"], body["limit"]) == (1, 2) and body["has_missing_conversations"] is False
    for item in body["items"]:
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z", item["create_time"]) and item["mapping"] is None
    assert client.call("GET", "/backend-api/conversations?limit=100").status == 200
    for query in ("limit=101", "limit=-1", "limit=x", "offset=x"):
        answer = client.call("GET", f"/backend-api/conversations?{query}")
        assert answer.status == 422 and answer.json["detail"][0]["loc"][0] == "query"


def test_the_list_and_its_scenarios(client: Client) -> None:
    def read(query: str = "") -> Answer:
        return client.call("GET", f"/backend-api/conversations?limit=100{query}")

    began = time.time()
    assert client.scenario("many-conversations", count=250).status == 200 and time.time() - began < 5.0
    titles = [item["title"] for offset in (0, 100, 200, 300) for item in read(f"&offset={offset}").json["items"]]
    assert titles == [f"Conversation {number}" for number in range(250, 0, -1)]
    ident = read("&offset=249").json["items"][0]["id"]
    assert len(client.call("GET", f"/backend-api/conversation/{ident}").json["mapping"]) > 3
    client.scenario("list-total", more=7)
    assert read().json["total"] == 257
    client.scenario("list-capped", at=120, missing=True)
    body = read("&offset=100").json
    assert (len(body["items"]), body["total"], body["has_missing_conversations"]) == (20, 257, True)
    client.scenario("list-capped", on=False)
    client.scenario("list-fails", at=200, above=28)
    assert [read(f"&offset={offset}").status for offset in (0, 100, 200)] == [200, 200, 500]
    assert client.call("GET", "/backend-api/conversations?offset=200&limit=28").status == 200
    client.scenario("list-fails", on=False)
    client.scenario("list-throttled", at=100, after=1, retry_after=9)
    assert [read(f"&offset={offset}").status for offset in (0, 0, 100, 0)] == [200, 200, 200, 200]
    answer = read("&offset=100")
    assert answer.status == 429 and answer.headers["retry-after"] == "9"
    assert client.call("GET", f"/backend-api/conversation/{ident}").status == 200, "the list alone"
    client.scenario("list-throttled", on=False)
    client.scenario("list-slow", seconds=0.3, at=200)
    began = time.monotonic()
    read()
    quick = time.monotonic() - began
    read("&offset=200")
    assert time.monotonic() - began - quick >= 0.3
    client.scenario("other-account")
    assert read().json["items"] == []


def test_a_throttle_that_is_yet_to_strike_shows_no_dialog(client: Client) -> None:
    assert client.scenario("throttled", after=1).json == {"scenarios": {"throttled": {"after": 1, "retry_after": 0}}}
    assert client.call("GET", "/practice/scenario").json == {"scenarios": {}}
    client.call("GET", "/backend-api/conversations")
    assert "throttled" in client.call("GET", "/practice/scenario").json["scenarios"]
    assert client.call("GET", "/backend-api/conversations").status == 429


def test_many_conversations_from_the_start() -> None:
    with PracticeServer(scenarios=["many-conversations:count=30"]) as site:
        assert len(Client(site).call("GET", "/backend-api/conversations?limit=100").json["items"]) == 30


@pytest.mark.parametrize(
    "sample",
    [
        samples.conversation(1),
        samples.conversation(60, thinking=True),
        samples.conversation(2, prompts=["tabs\t, trailing  \n\nblank", "\ud83d"], replies=["\ue200cite\ue202turn0\ue201 </script>"]),
        {
            "title": "2023",
            "create_time": 1685709965.5,
            "update_time": None,
            "current_node": "gone",
            "mapping": {
                "a": {"id": "a", "message": None, "parent": None, "children": ["b"]},
                "b": {"id": "b", "message": {"id": "b", "author": {"role": "user"}, "content": {"content_type": "strange"}}, "parent": "a"},
            },
        },
    ],
    ids=["one", "sixty-thinking", "odd-text", "old-and-dangling"],
)
def test_put_round_trip(client: Client, sample: dict) -> None:
    assert client.call("PUT", "/practice/conversations/6a9ddcb5-37f8-83e9-8000-000000000001", sample).status == 200
    got = client.conversation("6A9DDCB5-37f8-83e9-8000-000000000001")
    assert got["mapping"] == sample["mapping"] and got["title"] == sample["title"] and got["current_node"] == sample["current_node"]
    assert got["conversation_id"] == "6a9ddcb5-37f8-83e9-8000-000000000001"
    assert client.newest() == "6a9ddcb5-37f8-83e9-8000-000000000001"
    assert client.call("GET", "/practice/conversations/6a9ddcb5-37f8-83e9-8000-000000000001", bearer=False).json == got


@pytest.mark.parametrize("body", [{}, {"mapping": []}, {"mapping": {"a": 1}}, [], {"mapping": {"a": {"message": "x"}}}])
def test_put_refuses_what_is_no_conversation(client: Client, body: object) -> None:
    assert client.call("PUT", "/practice/conversations/abc", body).status == 422
    assert client.call("PUT", "/practice/conversations/a%2Fb", samples.conversation(1)).status == 422


def test_sample_is_deterministic_and_whole() -> None:
    sample = samples.conversation(60, thinking=True)
    assert sample == samples.conversation(60, thinking=True) != samples.conversation(60, thinking=True, title="Other")
    messages = branch(sample)
    assert len(messages) == 2 + 60 * 5 and messages[-1]["channel"] == "final" and messages[-1]["end_turn"] is True
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", sample["conversation_id"])
    assert int(sample["conversation_id"][:8], 16) == int(sample["create_time"])


def test_patch_and_gen_title(client: Client) -> None:
    sample = samples.conversation(1, title="New chat")
    ident = sample["conversation_id"]
    client.call("PUT", f"/practice/conversations/{ident}", sample)
    assert client.call("POST", f"/backend-api/conversation/gen_title/{ident}", {"message_id": "x"}).json == {
        "title": "Question 1: what is 1 times 1?"
    }
    assert "message" in client.call("POST", f"/backend-api/conversation/gen_title/{ident}", {}).json
    assert client.call("PATCH", f"/backend-api/conversation/{ident}", {"title": "Mine"}).json == {"success": True}
    assert client.conversation(ident)["title"] == "Mine"
    assert client.call("PATCH", f"/backend-api/conversation/{ident}", {"title": 1}).status == 422
    assert client.call("PATCH", f"/backend-api/conversation/{ident}", {"title": "x"}, bearer=False).status == 401
    client.call("PATCH", f"/backend-api/conversation/{ident}", {"is_visible": False})
    assert client.call("GET", f"/backend-api/conversation/{ident}").status == 404
    assert client.call("GET", "/backend-api/conversations").json["items"] == []


def test_small_shapes(client: Client) -> None:
    assert {"slug", "title", "thinking_efforts"} <= client.call("GET", "/backend-api/models").json["models"][0].keys()
    check = client.call("GET", "/backend-api/accounts/check/v4-2023-04-27").json
    assert check["account_ordering"][0] in check["accounts"]
    token = client.call("POST", "/backend-api/sentinel/chat-requirements", {}).json["token"]
    assert token and client.call("POST", "/backend-api/f/conversation/prepare", {}).json.keys() == {"status", "conduit_token"}


def test_challenge_stops_everything_but_the_switchboard(client: Client) -> None:
    client.scenario("challenge")
    for path in ("/", "/c/abc", "/api/auth/session", "/backend-api/conversations", "/auth/login"):
        answer = client.call("GET", path, bearer=False)
        assert answer.status == 403 and answer.headers["cf-mitigated"] == "challenge" and b"Just a moment..." in answer.body
    client.scenario("challenge", on=False)
    assert client.call("GET", "/").status == 200


def test_reads_refused_throttled_slow(client: Client) -> None:
    client.call("PUT", "/practice/conversations/abc", samples.conversation(1))
    client.scenario("json-refused", status=500)
    assert client.call("GET", "/backend-api/conversation/abc").status == 500
    assert client.call("GET", "/backend-api/conversations").status == 200
    assert client.call("GET", "/practice/conversations/abc").status == 200
    client.scenario("json-refused", on=False)
    client.scenario("throttled", after=1)
    assert client.call("GET", "/backend-api/conversation/abc").status == 200
    answer = client.call("GET", "/backend-api/conversations")
    assert answer.status == 429 and "retry-after" not in answer.headers and "Too many requests" in answer.json["detail"]
    client.scenario("throttled", retry_after=7)
    assert client.call("GET", "/backend-api/conversation/abc").headers["retry-after"] == "7"


def test_switchboard(client: Client) -> None:
    assert client.call("GET", "/practice/scenario", bearer=False).json == {"scenarios": {}}
    assert client.scenario("web-url").json == {"scenarios": {"web-url": {"seconds": 3.0}}}
    client.scenario("gen2")
    client.scenario("web-url", seconds=1)
    assert client.call("GET", "/practice/scenario").json == {"scenarios": {"web-url": {"seconds": 1}, "gen2": {}}}
    client.scenario("gen2", on=False)
    assert client.call("GET", "/practice/scenario").json == {"scenarios": {"web-url": {"seconds": 1}}}
    unknown = client.scenario("no-such")
    assert unknown.status == 404 and unknown.json["scenarios"] == sorted(SCENARIOS)
    assert client.scenario("no-such", on=False).status == 404
    for bad in ({"seconds": "x"}, {"seconds": -1}, {"seconds": True}, {"minutes": 1}, {"on": 1}):
        assert client.scenario("web-url", **bad).status == 422
    assert client.call("POST", "/practice/scenario", {"seconds": 1}).status == 422
    assert client.call("POST", "/practice/scenario", b"{").status == 422
    assert client.call("POST", "/practice/reset").json == {"success": True}
    assert client.call("GET", "/practice/scenario").json == {"scenarios": {}}
    assert client.state() == {"sends": [], "reads": 0}


def test_every_scenario_of_the_design_is_there() -> None:
    names = (
        "signed-out other-account challenge throttled slow-answer thinking pause-mid-word failed-turn json-refused swallow-click "
        "page-retries send-502 paste-becomes-file truncate-composer draft web-url gen2 work-mode upload-stalls upload-no-chip "
        "stop-control-elsewhere connection-drops service-worker rewrites-ids site-429 send-from-worker send-by-socket "
        "redirect-307 nervous-click page-haunts mobile-page"
    )
    assert set(names.split()) <= set(SCENARIOS)


def test_pages_and_bootstrap(client: Client, tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "DIST", tmp_path)
    (tmp_path / "index.html").write_text('<script type="application/json" id="bootstrap">__BOOTSTRAP__</script>')
    (tmp_path / "app.js").write_text("1")
    (tmp_path.parent / "secret.js").write_text("no")

    def boot(path: str) -> object:
        answer = client.call("GET", path)
        assert answer.status == 200 and answer.headers["content-type"].startswith("text/html")
        inner = answer.body.decode().removeprefix('<script type="application/json" id="bootstrap">').removesuffix("</script>")
        assert "<" not in inner
        return json.loads(inner)

    assert boot("/") == {"conversation": None} == boot("/?temporary-chat=true") == boot("/g/g-p-1/project")
    assert boot("/c/abc") == {"conversation": "abc"} == boot("/g/g-p-1-x/c/abc")
    assert boot("/c/%3Cb%3E%26%22") == {"conversation": '<b>&"'}
    asset = client.call("GET", "/assets/app.js")
    assert asset.headers["content-type"].startswith("text/javascript") and asset.body == b"1"
    assert client.call("GET", "/assets/app.js", headers={"If-None-Match": asset.headers["etag"]}).status == 304
    for path in ("/assets/../secret.js", "/assets/..%2Fsecret.js", "/assets/%2e%2e/secret.js", "/assets/.hidden", "/assets/none.js"):
        assert client.call("GET", path).status == 404
    answer = client.call("GET", "/nowhere/%3Cb%3E<b>")
    assert answer.status == 404 and b"<b>" not in answer.body
    assert b"sign" in client.call("GET", "/auth/login").body


def _process(*arguments: str) -> subprocess.Popen:
    command = [sys.executable, "-m", "gptbridge.practice", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _token(connection: http.client.HTTPConnection) -> str:
    connection.request("GET", "/api/auth/session")
    return str(json.load(connection.getresponse())["accessToken"])


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT])
def test_process_prints_one_line_and_ends_with_0(end: signal.Signals) -> None:
    process = _process("--scenario", "web-url:seconds=8", "--scenario", "gen2")
    try:
        assert process.stdout is not None
        site = json.loads(process.stdout.readline())
        assert list(site) == ["site"] and re.fullmatch(r"http://127\.0\.0\.1:\d+", site["site"])
        with urllib.request.urlopen(site["site"] + "/practice/scenario", timeout=5) as answer:
            assert json.load(answer) == {"scenarios": {"web-url": {"seconds": 8}, "gen2": {}}}
        host = site["site"].removeprefix("http://")
        connection = http.client.HTTPConnection(host, timeout=10)
        token = {"Authorization": "Bearer " + _token(connection), "Content-Type": "application/json"}
        connection.request("POST", "/backend-api/f/conversation", json.dumps(send_body("practice:slow seconds=60")), token)
        assert connection.getresponse().status == 200  # a stream is open when the end comes
        process.send_signal(end)
        out, err = process.communicate(timeout=10)
        assert (process.returncode, out, err) == (0, "", "")
    finally:
        process.kill()
        process.wait()


def test_process_refuses_bad_options_and_lists_scenarios() -> None:
    for option in ("nonsense", "web-url:minutes=1", "web-url:seconds=x", "web-url:seconds"):
        process = _process("--scenario", option)
        out, err = process.communicate(timeout=10)
        assert process.returncode == 2 and out == "" and "--scenarios" in err and "Traceback" not in err
    out, _ = _process("--scenarios").communicate(timeout=10)
    assert [line.split(":")[0].split()[0] for line in out.splitlines()] == list(SCENARIOS)


def test_a_taken_port_is_one_sentence(one: PracticeServer) -> None:
    process = _process("--port", one.url.rsplit(":", 1)[1])
    out, err = process.communicate(timeout=10)
    assert process.returncode == 20 and out == "" and "cannot serve" in err and "Traceback" not in err


def test_tls_serves_the_mapped_name() -> None:
    with PracticeServer(tls=True) as site:
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for host, status in (("chatgpt.com", 200), ("127.0.0.1", 200), ("example.org", 403)):
            request = urllib.request.Request(site.url + "/api/auth/session", headers={"Host": host})
            try:
                with urllib.request.urlopen(request, timeout=5, context=context) as answer:
                    assert answer.status == status
            except urllib.error.HTTPError as error:
                assert error.code == status
                error.close()


def test_tls_without_openssl_says_so(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    from gptbridge.practice.server import run

    monkeypatch.setenv("PATH", "/nonexistent")
    assert run(0, [], True) == 20
    assert "openssl" in capfd.readouterr().err
