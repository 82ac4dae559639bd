// Shared worker of the scenario `send-from-worker`: the send's POST leaves from here instead of from the page.
interface Order { url: string; headers: Record<string, string>; body: string }

(self as unknown as { onconnect: (event: MessageEvent) => void }).onconnect = (event) => {
  const port = event.ports[0];
  port.onmessage = async (message: MessageEvent<Order>) => {
    const { url, headers, body } = message.data;
    try {
      const answer = await fetch(url, { method: "POST", headers, body });
      port.postMessage({ kind: "head", status: answer.status, type: answer.headers.get("content-type") ?? "" });
      const decoder = new TextDecoder();
      const reader = answer.body?.getReader();
      for (let part = await reader?.read(); part && !part.done; part = await reader?.read()) {
        port.postMessage({ kind: "chunk", text: decoder.decode(part.value, { stream: true }) });
      }
      port.postMessage({ kind: "end" });
    } catch (error) {
      port.postMessage({ kind: "error", message: String(error) });
    }
  };
};
