"""What the practice site does with a send: stored once, answered whoever stays, streamed, on the record whatever happens."""

from __future__ import annotations

import base64
import hashlib
import http.client
import json
import os
import re
import socket
import time
import uuid
from collections.abc import Iterator

import pytest

from gptbridge.practice import answers, samples
from gptbridge.practice.server import PracticeServer

from .server_client import Client, branch, decode, events, send_body, until


@pytest.fixture(scope="module")
def one() -> Iterator[PracticeServer]:
    with PracticeServer() as site:
        yield site


@pytest.fixture
def client(one: PracticeServer) -> Client:
    one.world.reset()
    return Client(one)


def users(conversation: dict) -> list[str]:
    return [key for key, node in conversation["mapping"].items() if node["message"] and node["message"]["author"]["role"] == "user"]


def test_a_send_makes_a_conversation_and_quotes_the_prompt(client: Client) -> None:
    before, ident = time.time(), str(uuid.uuid4())
    answer = client.send("first\n\n  third 😀", ident=ident)
    assert answer.status == 200 and answer.headers["content-type"].startswith("text/event-stream")
    got = client.conversation(client.newest())
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", got["conversation_id"])
    assert int(before) <= int(got["conversation_id"][:8], 16) <= time.time()
    assert got["mapping"]["client-created-root"]["message"] is None and got["title"] == "first"
    messages = branch(got)
    assert [m["author"]["role"] for m in messages] == ["system", "system", "user", "assistant"]
    assert all(m["metadata"]["is_visually_hidden_from_conversation"] for m in messages[:2])
    user, final = messages[2:]
    assert user["id"] == ident and user["content"]["parts"] == ["first\n\n  third 😀"]
    assert user["metadata"]["parent_id"] == "client-created-root"
    assert final["content"]["parts"] == ["You said:\n\n> first\n> \n>   third 😀"]
    assert (final["channel"], final["status"], final["end_turn"], final["recipient"]) == ("final", "finished_successfully", True, "all")
    assert final["metadata"]["parent_id"] == ident and final["metadata"]["turn_exchange_id"] == user["metadata"]["turn_exchange_id"]
    assert isinstance(final["create_time"], float) and before < got["update_time"] < time.time()


@pytest.mark.parametrize("prompt", ["hello", "practice:think", "practice:files", "practice:image", "practice:parts", "practice:markdown",
                                    "practice:surrogate", "practice:empty", "practice:citations", "", "lone \ud83d"])  # fmt: skip
def test_the_stream_says_what_the_json_says(client: Client, prompt: str) -> None:
    ident = str(uuid.uuid4())
    raw = client.send(prompt, ident=ident).body
    listed = list(events(raw))
    assert listed[0] == ("delta_encoding", "v1") and listed[-1] == (None, "[DONE]")
    messages, typed = decode(raw)
    conversation = client.conversation(client.newest())
    assert [m["message"] for m in messages] == branch(conversation)[3:]
    assert {m["conversation_id"] for m in messages} == {conversation["conversation_id"]}
    kinds = [frame["type"] for frame in typed]
    assert kinds[:2] == ["resume_conversation_token", "input_message"] and kinds[-1] == "message_stream_complete"
    assert typed[1]["input_message"] == branch(conversation)[2]
    assert next(f for f in typed if f["type"] == "title_generation")["title"] == conversation["title"]


def test_the_stream_comes_in_several_pieces_and_soon(client: Client) -> None:
    began = time.monotonic()
    raw = client.send("hello there").body
    assert time.monotonic() - began < 1.0
    assert sum(1 for name, data in events(raw) if name == "delta" and isinstance(data["v"], str)) >= 3


def test_thinking(client: Client) -> None:
    client.scenario("thinking", seconds=0.4)
    client.send("practice:think\nmore", thinking_effort="extended", model="gpt-5-5-thinking")
    messages = branch(client.conversation(client.newest()))[3:]
    assert [(m["content"]["content_type"], m["channel"], m["end_turn"]) for m in messages] == [
        ("thoughts", "analysis", False),
        ("reasoning_recap", "analysis", False),
        ("text", "commentary", False),
        ("text", "final", True),
    ]
    assert all(t["finished"] and "".join(t["chunks"]) == t["content"] for t in messages[0]["content"]["thoughts"])
    assert {m["metadata"]["thinking_effort"] for m in messages} == {"extended"}
    assert {m["metadata"]["model_slug"] for m in messages} == {"gpt-5-5-thinking"}


def test_the_answer_goes_on_without_its_client(client: Client) -> None:
    connection = http.client.HTTPConnection(client.host, timeout=10)
    response = client.open(connection, "POST", "/backend-api/f/conversation", send_body("practice:slow seconds=0.6"))
    assert response.status == 200
    response.read1(10)
    response.close()
    connection.close()
    ident = client.newest()
    early = client.conversation(ident)
    node = early["mapping"][early["current_node"]]["message"]
    assert (node["author"]["role"], node["status"], node["end_turn"]) == ("assistant", "in_progress", None)
    done = until(lambda: [m for m in branch(client.conversation(ident)) if m["end_turn"] is True and m["channel"] == "final"])
    assert done[0]["content"]["parts"] == [answers.quoted("practice:slow seconds=0.6")]


def test_a_late_reader_gets_the_whole_stream(client: Client) -> None:
    whole = client.send("practice:slow seconds=0.3").body
    ident = client.newest()
    again = client.call("POST", "/backend-api/f/conversation/resume", {"conversation_id": ident, "offset": 0})
    assert again.body == whole
    assert client.call("POST", "/backend-api/f/conversation/resume", {"conversation_id": "x"}).status == 404
    assert len(client.state()["sends"]) == 1


def test_resume_stands_below_its_parent_and_a_sibling_is_a_branch(client: Client) -> None:
    client.send("one")
    ident = client.newest()
    first = client.conversation(ident)
    for prompt in ("two", "two again"):
        assert client.send(prompt, conversation=ident, parent=first["current_node"]).status == 200
    got = client.conversation(ident)
    assert len(got["mapping"][first["current_node"]]["children"]) == 2 and got["title"] == "one"
    assert [m["content"]["parts"] for m in branch(got) if m["author"]["role"] == "user"] == [["one"], ["two again"]]
    assert client.send("x", conversation=ident, parent=str(uuid.uuid4())).status == 404
    unknown = client.send("x", conversation="6a9ddcb5-37f8-83e9-8000-00000000dead")
    assert unknown.status == 404 and unknown.json["detail"]["code"] == "conversation_inaccessible"
    assert len(users(client.conversation(ident))) == 3


def test_a_send_into_a_put_conversation(client: Client) -> None:
    sample = samples.conversation(60)
    ident = sample["conversation_id"]
    client.call("PUT", f"/practice/conversations/{ident}", sample)
    assert client.send("more", conversation=ident, parent=sample["current_node"]).status == 200
    assert branch(client.conversation(ident))[-1]["content"]["parts"] == ["You said:\n\n> more"]
    stored = next(m["id"] for m in branch(sample) if m["author"]["role"] == "user")
    assert client.send("copy", conversation=ident, parent=sample["current_node"], ident=stored).status == 409
    assert len(users(client.conversation(ident))) == 61


def test_variant_answers_again_and_stores_nothing_twice(client: Client) -> None:
    ident = str(uuid.uuid4())
    client.send("one", ident=ident)
    conversation = client.newest()
    assert client.send("one", ident=ident, conversation=conversation, action="variant").status == 200
    got = client.conversation(conversation)
    assert users(got) == [ident] and len(got["mapping"][ident]["children"]) == 2
    assert branch(got)[-1]["end_turn"] is True


def test_state_lists_sends_in_order_with_copies(client: Client) -> None:
    ident = str(uuid.uuid4())
    client.send("one", ident=ident)
    conversation = client.newest()
    client.send("one", ident=ident)
    client.call("POST", "/backend-api/conversation", send_body("two", conversation=conversation, parent=ident))
    before = client.state()["reads"]
    client.call("GET", "/backend-api/me", bearer=False)
    state = client.state()
    assert state["reads"] == before + 1 and list(state) == ["sends", "reads"]
    assert list(state["sends"][0]) == ["message_id", "conversation_id", "text", "at", "answered", "copy_of", "attachments",
                                          "model", "effort"]
    assert [(s["text"], s["answered"], s["copy_of"], s["conversation_id"]) for s in state["sends"]] == [
        ("one", 200, None, conversation),
        ("one", 200, 0, conversation),
        ("two", 200, None, conversation),
    ]
    assert state["sends"][0]["message_id"] == ident and abs(state["sends"][0]["at"] - time.time()) < 60
    assert users(client.conversation(conversation)).count(ident) == 1


def test_a_copy_that_comes_while_the_first_is_answered(client: Client) -> None:
    ident = str(uuid.uuid4())
    connection = http.client.HTTPConnection(client.host, timeout=10)
    first = client.open(connection, "POST", "/backend-api/f/conversation", send_body("practice:slow seconds=0.5", ident=ident))
    second = client.send("practice:slow seconds=0.5", ident=ident)
    assert second.body == first.read()
    connection.close()
    assert len(client.call("GET", "/backend-api/conversations").json["items"]) == 1
    assert users(client.conversation(client.newest())) == [ident]


def test_refused_and_broken_sends_are_on_the_record(client: Client) -> None:
    path = "/backend-api/f/conversation"
    statuses = [
        client.call("POST", path, b"{not json").status,
        client.call("POST", path, b"[]").status,
        client.call("POST", path, b'"\xff"').status,
        client.call("POST", path, send_body("a"), bearer=False).status,
        client.call("POST", path, send_body("b", action="continue")).status,
        client.call("POST", path, send_body("c"), headers={"Origin": "https://evil.example"}).status,
        client.call("POST", path, send_body("d"), headers={"Host": "evil.example"}).status,
        client.call("POST", path, send_body("e"), headers={"Content-Type": "application/x-www-form-urlencoded"}).status,
        client.call("POST", path, send_body("f"), headers={"OpenAI-Sentinel-Chat-Requirements-Token": "forged"}).status,
        client.call("POST", path, send_body("g" * 400_001)).status,
        client.call("POST", path + "/?x=1", send_body("h")).status,
        client.call("POST", path, {"action": "next", "messages": [None, {"id": 4, "author": "user", "content": []}]}).status,
    ]
    assert statuses == [422, 422, 422, 401, 422, 403, 403, 415, 403, 413, 404, 422]
    sends = client.state()["sends"]
    assert [s["answered"] for s in sends] == statuses
    assert [s["text"][:1] for s in sends] == ["", "", "", "a", "b", "c", "d", "e", "f", "g", "h", ""]
    assert all(s["conversation_id"] is None and s["copy_of"] is None for s in sends)
    assert client.call("GET", "/backend-api/conversations").json["items"] == []


def test_a_send_whose_body_never_ends_is_on_the_record(client: Client) -> None:
    port = int(client.host.rsplit(":", 1)[1])
    with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
        raw.sendall(f"POST /backend-api/f/conversation HTTP/1.1\r\nHost: {client.host}\r\nContent-Length: 1000\r\n\r\n{{".encode())
        until(lambda: client.state()["sends"])
        assert client.state()["sends"][0]["answered"] is None and client.state()["sends"][0]["message_id"] is None
    until(lambda: client.state()["sends"][0]["answered"] in (400, None))
    for head in ("Content-Length: x", "Transfer-Encoding: chunked", "Content-Length: 99999999999"):
        with socket.create_connection(("127.0.0.1", port), timeout=5) as raw:
            raw.sendall(f"POST /backend-api/conversation HTTP/1.1\r\nHost: {client.host}\r\n{head}\r\n\r\n".encode())
            assert b" 400 " in raw.recv(100)
    assert len(client.state()["sends"]) == 4


def test_502_takes_the_message(client: Client) -> None:
    client.scenario("send-502", times=1)
    body = send_body("hello")
    assert client.call("POST", "/backend-api/f/conversation", body).status == 502
    again = client.call("POST", "/backend-api/f/conversation", body)
    assert again.status == 200 and decode(again.body)[0][-1]["message"]["end_turn"] is True
    assert [(s["answered"], s["copy_of"]) for s in client.state()["sends"]] == [(502, None), (200, 0)]
    assert len(users(client.conversation(client.newest()))) == 1


def test_the_connection_drops_before_or_within_the_answer(client: Client) -> None:
    client.scenario("connection-drops")
    with pytest.raises((http.client.RemoteDisconnected, ConnectionError)):
        client.send("hello")
    send = client.state()["sends"][0]
    assert send["answered"] is None and send["conversation_id"] == client.newest()
    client.scenario("connection-drops", frames=4)
    with pytest.raises(http.client.IncompleteRead) as cut:
        client.send("practice:slow seconds=0.3")
    assert len(list(events(cut.value.partial))) == 4
    until(lambda: branch(client.conversation(client.newest()))[-1]["end_turn"])
    assert len(client.state()["sends"]) == 2


def test_refusals_of_the_site(client: Client) -> None:
    client.scenario("site-429", clears_in=99)
    answer = client.send("a")
    assert answer.status == 429 and answer.json["detail"]["clears_in"] == 99
    for status in (401, 403, 413, 422, 418):
        client.scenario("site-429", status=status)
        assert client.send("a").status == status
    assert client.send("a").status == 418
    client.scenario("site-429", on=False)
    client.scenario("message-limit", at=3)
    assert client.send("abc").status == 200
    answer = client.send("abcd")
    assert answer.status == 413 and answer.json["detail"]["code"] == "message_length_exceeds_limit"
    assert len(client.call("GET", "/backend-api/conversations").json["items"]) == 1


def test_redirect_counts_both(client: Client) -> None:
    client.scenario("redirect-307")
    body = send_body("hello")
    answer = client.call("POST", "/backend-api/f/conversation", body)
    assert answer.status == 307 and answer.headers["location"] == "/backend-api/conversation"
    assert client.call("GET", "/backend-api/conversations").json["items"] == []
    assert client.call("POST", answer.headers["location"], body).status == 200
    assert [(s["answered"], s["copy_of"]) for s in client.state()["sends"]] == [(307, None), (200, 0)]


def test_rewritten_ids(client: Client) -> None:
    client.scenario("rewrites-ids")
    ident = str(uuid.uuid4())
    _, typed = decode(client.send("hello", ident=ident).body)
    got = client.conversation(client.newest())
    assert ident not in got["mapping"] and users(got) == [typed[1]["input_message"]["id"]]
    assert client.state()["sends"][0]["message_id"] == ident
    client.send("hello", ident=ident)
    client.send("more", conversation=got["conversation_id"], parent=ident)
    assert len(users(client.conversation(got["conversation_id"]))) == 2


def test_a_failed_turn(client: Client) -> None:
    client.scenario("failed-turn", times=1)
    raw = client.send("hello").body
    failure = next(data for _, data in events(raw) if isinstance(data, dict) and data.get("error"))
    assert failure["message"] is None and "Something went wrong" in failure["error"]
    last = branch(client.conversation(client.newest()))[-1]
    assert (last["status"], last["end_turn"], last["metadata"]["is_error"], last["content"]["parts"]) == ("error", None, True, [""])
    client.send("hello")
    assert branch(client.conversation(client.newest()))[-1]["status"] == "finished_successfully"
    client.scenario("failed-turn", partial=True)
    client.send("hello")
    assert branch(client.conversation(client.newest()))[-1]["content"]["parts"][0].startswith("You")


def test_stop(client: Client) -> None:
    connection = http.client.HTTPConnection(client.host, timeout=10)
    response = client.open(connection, "POST", "/backend-api/f/conversation", send_body("practice:slow seconds=8"))
    ident = client.newest()
    until(lambda: (m := branch(client.conversation(ident))[-1])["author"]["role"] == "assistant" and m["content"]["parts"][0])
    assert client.call("POST", "/backend-api/stop_conversation", {"conversation_id": ident}).json == {"success": True}
    assert response.read().endswith(b"[DONE]\n\n")
    connection.close()
    last = branch(client.conversation(ident))[-1]
    assert (last["status"], last["end_turn"]) == ("finished_successfully", None)
    assert last["metadata"]["finish_details"] == {"type": "interrupted", "reason": "client_stopped"}
    assert client.call("POST", "/backend-api/stop_conversation", {"conversation_id": "none"}).status == 404


def test_web_url_tells_the_id_late_while_the_answer_is_already_there(client: Client) -> None:
    client.scenario("web-url", seconds=0.6)
    connection = http.client.HTTPConnection(client.host, timeout=10)
    response = client.open(connection, "POST", "/backend-api/f/conversation", send_body("hello"))
    assert response.status == 200
    until(lambda: branch(client.conversation(client.newest()))[-1]["end_turn"])
    began = time.monotonic()
    assert b"conversation_id" in response.read()
    assert 0.1 < time.monotonic() - began < 2
    connection.close()


def test_pause_mid_word_and_newest_behind(client: Client) -> None:
    client.scenario("pause-mid-word", seconds=0.4)
    client.scenario("newest-behind", seconds=0.3)
    connection = http.client.HTTPConnection(client.host, timeout=10)
    response = client.open(connection, "POST", "/backend-api/f/conversation", send_body("hello wonderful world"))
    ident = client.newest()
    assert branch(client.conversation(ident))[-1]["author"]["role"] == "system"
    text = until(lambda: (m := branch(client.conversation(ident))[-1])["author"]["role"] == "assistant" and m["content"]["parts"][0])
    assert text[-1].isalpha() and text != answers.quoted("hello wonderful world")
    assert decode(response.read())[0][-1]["message"]["content"]["parts"] == [answers.quoted("hello wonderful world")]
    connection.close()


def test_reset_ends_what_is_being_written(client: Client) -> None:
    connection = http.client.HTTPConnection(client.host, timeout=10)
    response = client.open(connection, "POST", "/backend-api/f/conversation", send_body("practice:slow seconds=60"))
    client.call("POST", "/practice/reset")
    assert b"[DONE]" not in response.read()
    connection.close()
    assert client.state() == {"sends": [], "reads": 0}


def test_guest(client: Client) -> None:
    client.scenario("signed-out")
    answer = client.call("POST", "/backend-anon/f/conversation", send_body("hello"))
    assert answer.status == 200
    ident = decode(answer.body)[0][0]["conversation_id"]
    assert client.call("GET", f"/backend-anon/conversation/{ident}").status == 200
    client.scenario("signed-out", on=False)
    assert client.call("GET", f"/backend-api/conversation/{ident}").status == 404
    assert len(client.state()["sends"]) == 1


def test_files_in_two_steps(client: Client) -> None:
    client.send("practice:files")
    conversation = client.conversation(client.newest())
    ident, final = conversation["conversation_id"], branch(conversation)[-1]
    path = re.findall(r"sandbox:(/mnt/data/[^)]+)", final["content"]["parts"][0])[0]
    step = client.call("GET", f"/backend-api/conversation/{ident}/interpreter/download?message_id={final['id']}&sandbox_path={path}").json
    assert step["status"] == "success" and step["file_name"] == path and step["mime_type"] == "text/csv"
    url = step["download_url"].removeprefix(client.site.url)
    got = client.call("GET", url, bearer=False)
    assert got.body == answers.TABLE.encode() and 'filename="table.csv"' in got.headers["content-disposition"]
    assert client.call("GET", url.replace("sig=", "sig=0"), bearer=False).status == 403
    wrong = client.call("GET", f"/backend-api/conversation/{ident}/interpreter/download?message_id=x&sandbox_path={path}")
    assert wrong.status == 404
    image = next(m for m in branch(conversation) if m["author"]["role"] == "tool")["content"]["parts"][0]
    file = image["asset_pointer"].removeprefix("sediment://")
    for route in (f"files/{file}/download", f"files/download/{file}?conversation_id={ident}&inline=false"):
        step = client.call("GET", f"/backend-api/{route}").json
        got = client.call("GET", step["download_url"].removeprefix(client.site.url), bearer=False)
        assert got.body.startswith(b"\x89PNG") and len(got.body) == image["size_bytes"] == step["file_size_bytes"]
    assert client.call("GET", "/backend-api/files/file_0/download").json["error_code"] == "file_not_found"


def test_upload(client: Client) -> None:
    made = client.call("POST", "/backend-api/files", {"file_name": "a b.txt", "file_size": 3, "use_case": "my_files"}).json
    url = made["upload_url"].removeprefix(client.site.url)
    assert client.call("PUT", url, b"\x00\xff1", headers={"Content-Type": "text/plain"}).status == 201
    stream = client.call("POST", "/backend-api/files/process_upload_stream", {"file_id": made["file_id"]})
    assert b"file.processing.file_ready" in stream.body
    step = client.call("GET", f"/backend-api/files/{made['file_id']}/download").json
    assert client.call("GET", step["download_url"].removeprefix(client.site.url)).body == b"\x00\xff1"


def test_reads_are_quick_also_of_a_long_conversation(client: Client) -> None:
    sample = samples.conversation(60, thinking=True)
    client.call("PUT", f"/practice/conversations/{sample['conversation_id']}", sample)
    token = {"Authorization": "Bearer " + client.token()}
    connection = http.client.HTTPConnection(client.host, timeout=10)
    took = []
    for _ in range(10):
        began = time.perf_counter()
        client.open(connection, "GET", f"/backend-api/conversation/{sample['conversation_id']}", headers=token).read()
        took.append(time.perf_counter() - began)
    connection.close()
    assert min(took) < 0.05


def _frame(payload: bytes) -> bytes:
    mask = os.urandom(4)
    length = bytes([0x80 | len(payload)]) if len(payload) < 126 else b"\xfe" + len(payload).to_bytes(2, "big")
    return b"\x81" + length + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(payload))


def test_a_send_by_socket_counts_like_any_other(client: Client) -> None:
    port = int(client.host.rsplit(":", 1)[1])
    key = base64.b64encode(os.urandom(16)).decode()
    with socket.create_connection(("127.0.0.1", port), timeout=10) as raw:
        head = ["GET /backend-api/ws HTTP/1.1", f"Host: {client.host}", "Upgrade: websocket", "Connection: Upgrade",
                f"Sec-WebSocket-Key: {key}", "Sec-WebSocket-Version: 13", f"Origin: {client.site.url}", "", ""]  # fmt: skip
        raw.sendall("\r\n".join(head).encode())
        stream = raw.makefile("rb")
        lines = []
        while (line := stream.readline().strip()) != b"":
            lines.append(line.decode())
        accept = base64.b64encode(hashlib.sha1((key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11").encode()).digest()).decode()
        assert " 101 " in lines[0] and f"Sec-WebSocket-Accept: {accept}" in lines
        for payload, status in ((json.dumps(send_body("by socket")).encode(), 200), (b"nonsense", 422)):
            raw.sendall(_frame(payload))
            got = []
            while not got or got[-1]["type"] != "end":
                first, size = stream.read(2)
                assert first == 0x81
                size = int.from_bytes(stream.read(2), "big") if size == 126 else size
                got.append(json.loads(stream.read(size)))
            assert got[0] == {"type": "status", "status": status}
            if status == 200:
                text = "".join(item["encoded_item"] for item in got if item["type"] == "item")
                assert decode(text.encode())[0][-1]["message"]["content"]["parts"] == ["You said:\n\n> by socket"]
    assert [(s["text"], s["answered"]) for s in client.state()["sends"]] == [("by socket", 200), ("", 422)]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "evil.example"}, 403),
        ({"Host": "chatgpt.com"}, 403),
        ({"Host": "127.0.0.1.evil.example"}, 403),
        ({"Host": "user@127.0.0.1"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403),
        ({"Host": "localhost:1"}, 200),
        ({"Host": "[::1]:1"}, 200),
        ({"Host": "LOCALHOST"}, 200),
    ],
)
def test_foreign_hosts_and_origins_are_refused(client: Client, headers: dict[str, str], status: int) -> None:
    for path in ("/", "/practice/state", "/api/auth/session"):
        assert client.call("GET", path, headers=headers).status == status
    assert client.call("POST", "/practice/reset", {}, headers=headers).status == status


def test_only_json_bodies(client: Client) -> None:
    assert client.call("POST", "/practice/scenario", {"name": "gen2"}, headers={"Content-Type": "text/plain;charset=UTF-8"}).status == 200
    for kind in ("application/x-www-form-urlencoded", "multipart/form-data", "text/html"):
        assert client.call("POST", "/practice/scenario", {"name": "gen2"}, headers={"Content-Type": kind}).status == 415
    assert client.call("GET", "/", headers={"Origin": client.site.url}).status == 200
    assert client.call("DELETE", "/practice/state").status == 404
