"""What a reply says so far, put together from the messages of its stream.

One turn may say something, think and say more: what was said before stands (case 14). For display, and for the log of a turn that ends
early; the whole truth of a turn is the conversation JSON. Touches nothing; raises nothing.
"""

from __future__ import annotations

from gptbridge.core.stream import MessageState
from gptbridge.core.turn import Texts


class Heard:
    """Texts by message id, in the order in which the messages first came."""

    def __init__(self) -> None:
        self._thought: dict[str, str] = {}
        self._said: dict[str, str] = {}

    def take(self, message: MessageState) -> bool:
        """Whether it is a part of what is shown of the turn."""
        if message.role == "assistant" and message.content_type == "thoughts":
            self._thought[message.message_id] = message.text
        elif (message.role == "assistant" and message.content_type == "text" and message.recipient in (None, "all")
              and message.channel != "analysis"):
            self._said[message.message_id] = message.text
        else:
            return False
        return True

    def overtake(self, thinking: str, answer: str) -> bool:
        """The site's own account of the turn, where that has more: the stream ended early, and the reply goes on elsewhere."""
        if len(thinking) + len(answer) <= sum(map(len, self.texts)):
            return False
        self._thought, self._said = {"": thinking}, {"": answer}
        return True

    @property
    def texts(self) -> Texts:
        return Texts(_joined(self._thought), _joined(self._said))


def _joined(texts: dict[str, str]) -> str:
    return "\n\n".join(filter(None, texts.values()))
