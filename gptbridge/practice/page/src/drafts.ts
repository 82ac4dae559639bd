// Where drafts survive a reload: one text per conversation in the browser's local storage.
const KEY = "practice/draft/";

/** The draft of a conversation ("new" for none), or the empty string. */
export function draftOf(conversation: string): string {
  return localStorage.getItem(KEY + conversation) ?? "";
}

/** Keeps or, when empty, forgets a draft. A full storage loses the draft, never the typing. */
export function keepDraft(conversation: string, text: string): void {
  try {
    if (text) localStorage.setItem(KEY + conversation, text);
    else localStorage.removeItem(KEY + conversation);
  } catch { /* quota */ }
}
