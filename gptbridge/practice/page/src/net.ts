// How the page talks to the site: who is signed in, which headers go along, which scenarios are on.
export interface Session { user: { id: string; name?: string; email?: string } | null; account: { id: string; planType?: string } | null; token: string | null }
export type Scenarios = Record<string, Record<string, unknown>>;

/** An answer of the site that is no success. `text` is what it says, if it says anything that is fit to show. */
export class Refusal extends Error {
  constructor(readonly status: number, readonly text: string) {
    super(text || `HTTP ${status}`);
  }
}

let session: Session = { user: null, account: null, token: null };
let scenarios: Scenarios = {};

export const whoami = (): Session => session;
export const scenario = (name: string): Record<string, unknown> | undefined => scenarios[name];

/** A number among a scenario's parameters, or the default. */
export function parameter(name: string, key: string, otherwise: number): number {
  const value = Number(scenarios[name]?.[key] ?? otherwise);
  return Number.isFinite(value) ? value : otherwise;
}

/** Reads the scenarios that are on; keeps the last known ones when the site does not say. */
export async function refreshScenarios(): Promise<Scenarios> {
  try {
    const answer = await fetch("/practice/scenario", { headers: { Accept: "application/json" } });
    if (answer.ok) scenarios = ((await answer.json()) as { scenarios?: Scenarios }).scenarios ?? {};
  } catch { /* the site is away: the next read tells */ }
  return scenarios;
}

/** Asks who is signed in. A session without a user is a guest's. */
export async function refreshSession(): Promise<Session> {
  try {
    const answer = await fetch("/api/auth/session", { credentials: "include" });
    const body = answer.ok ? await answer.json() : {};
    session = body.user ? { user: body.user, account: body.account ?? null, token: body.accessToken ?? null } : { user: null, account: null, token: null };
  } catch {
    session = { user: null, account: null, token: null };
  }
  return session;
}

const deviceId = ((): string => {
  const kept = localStorage.getItem("oai-did") ?? crypto.randomUUID();
  localStorage.setItem("oai-did", kept);
  return kept;
})();

/** The headers of every call: bearer and account where somebody is signed in. */
export function headers(extra: Record<string, string> = {}): Record<string, string> {
  const out: Record<string, string> = { "OAI-Device-Id": deviceId, "OAI-Language": document.documentElement.lang || "en", ...extra };
  if (session.token) out.Authorization = `Bearer ${session.token}`;
  if (session.account) out["Chatgpt-Account-Id"] = session.account.id;
  return out;
}

/** What an error body says, in the shapes that the site uses. */
export function wording(body: string): string {
  try {
    const value = JSON.parse(body);
    const detail = value.detail ?? value.error ?? value;
    if (typeof detail === "string") return detail;
    if (Array.isArray(detail)) return String(detail[0]?.msg ?? "");
    return String(detail?.message ?? "");
  } catch {
    return "";
  }
}

/** A JSON call. Throws Refusal on every status but 2xx, TypeError when the network fails. */
export async function call<T>(method: string, path: string, body?: unknown, extra: Record<string, string> = {}): Promise<T> {
  const typed: Record<string, string> = body === undefined ? {} : { "Content-Type": "application/json" };
  const answer = await fetch(path, { method, headers: headers({ ...typed, ...extra }), body: body === undefined ? undefined : JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Refusal(answer.status, wording(text));
  return (text ? JSON.parse(text) : {}) as T;
}

/** Base of the endpoints: guests have their own. */
export const api = (path: string): string => `${session.user ? "/backend-api" : "/backend-anon"}${path}`;
