"""Files, through the official SDK (files-skills-vaults 1)."""

import hashlib
import io
import pathlib

import openai
import pytest


def test_a_file_lives_and_dies(client):
    made = client.files.create(file=("notes.txt", b"hello", "text/plain"), purpose="user_data")
    assert (made.object, made.bytes, made.filename, made.purpose, made.status) == ("file", 5, "notes.txt", "user_data", "processed")
    assert client.files.retrieve(made.id) == made
    assert made.id in [listed.id for listed in client.files.list()]
    assert [listed.id for listed in client.files.list(purpose="batch")] == []
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.content(made.id)
    assert "Not allowed to download files of purpose: user_data" in str(refused.value)
    deleted = client.files.delete(made.id)
    assert (deleted.id, deleted.deleted, deleted.object) == (made.id, True, "file")
    for again in (client.files.retrieve, client.files.delete, client.files.content):
        with pytest.raises(openai.NotFoundError) as missing:
            again(made.id)
        assert missing.value.param == "id"


def test_lists_page_in_both_orders(client):
    made = [client.files.create(file=(f"{number}.txt", b"", "text/plain"), purpose="user_data").id for number in range(5)]
    for order, expected in (("asc", made), ("desc", made[::-1])):
        ids = [listed.id for listed in client.files.list(limit=2, order=order)]
        assert len(ids) == len(set(ids)) and [one for one in ids if one in made] == expected
    for one in made:
        client.files.delete(one)


@pytest.mark.parametrize("purpose", ["assistants", "batch", "fine-tune", "vision", "evals"])
def test_other_purposes_are_refused(client, purpose):
    with pytest.raises(openai.BadRequestError) as refused:
        client.files.create(file=("a", b"x"), purpose=purpose)
    assert refused.value.param == "purpose"


def test_bytes_lie_sealed_and_go_with_nothing_left_behind(core, client):
    """Not one readable byte on disk, and what is refused half-way leaves no trace."""
    canary = b"canary-" + hashlib.sha256(b"file").hexdigest().encode()
    client.files.create(file=("c", canary * 1000), purpose="user_data")
    for path in pathlib.Path(core.folder).rglob("*"):
        if path.is_file() and "harnesses" not in path.parts:
            assert canary not in path.read_bytes(), path


class Zeros(io.RawIOBase):
    """So many zeros, never all in memory."""

    def __init__(self, size):
        self.left = size

    def readable(self):
        return True

    def read(self, size=-1):
        size = self.left if size is None or size < 0 else min(size, self.left)
        self.left -= size
        return bytes(size)


def resident(pid):
    """Most memory that the process ever had, in bytes."""
    line = next(line for line in open(f"/proc/{pid}/status") if line.startswith("VmHWM"))
    return int(line.split()[1]) * 1024


def test_a_large_file_streams_through_a_flat_process(core):
    """SRC-004: 300 MiB go in with little more memory than before, and one byte over the limit comes to nothing."""
    size = 300 << 20
    client = openai.OpenAI(base_url=core.url + "/v1", api_key=core.api_key, max_retries=0)
    client.files.delete(client.files.create(file=("warm", bytes(1 << 20)), purpose="user_data").id)
    before = resident(core.process.pid)
    status, body = upload(core, size)
    assert status == 200, body
    assert resident(core.process.pid) - before < 64 << 20
    status, body = upload(core, (512 << 20) + 1)
    assert status == 413 and b"request_too_large" in body


def upload(core, size):
    """A form written by hand: the SDK would hold the file in memory."""
    import http.client

    head = b'--xyz\r\ncontent-disposition: form-data; name="purpose"\r\n\r\nuser_data\r\n'
    head += b'--xyz\r\ncontent-disposition: form-data; name="file"; filename="big"\r\n\r\n'
    tail = b"\r\n--xyz--\r\n"
    connection = http.client.HTTPConnection("127.0.0.1", core.port, timeout=300)
    connection.putrequest("POST", "/v1/files")
    connection.putheader("authorization", f"Bearer {core.api_key}")
    connection.putheader("content-type", "multipart/form-data; boundary=xyz")
    connection.putheader("content-length", str(len(head) + size + len(tail)))
    connection.endheaders()
    try:
        connection.send(head)
        zeros = Zeros(size)
        while chunk := zeros.read(1 << 20):
            connection.send(chunk)
        connection.send(tail)
    except (BrokenPipeError, ConnectionResetError):
        pass  # refused in the middle: the answer is what counts
    answer = connection.getresponse()
    return answer.status, answer.read()
