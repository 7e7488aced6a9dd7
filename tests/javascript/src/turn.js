// One Turn: from its start to the point where nothing of it is open.

/** UTF-16 units of a text that are kept; the engine has to fit into 64 MiB with all of them. */
const MOST_OUTPUT = 256 * 1024;
/** UTF-16 units; at most three bytes each. */
const LONGEST_DETAIL = 300;

export class Turn {
  /** Id of the native Turn, once there is one. */
  native;
  interrupted = false;
  steers = [];
  cancels = [];
  /** What is known of each Item that is open. */
  #items = new Map();

  /** `first`: ids of the messages that begin it and wait for their receipt. They are one native message. */
  constructor(id, first, thread) {
    this.id = id;
    this.first = first;
    this.thread = thread;
  }

  exists(native, out) {
    this.native = native;
    out.push(done(this.id));
  }

  notification(method, params, out) {
    switch (method) {
      case 'item/started':
        return this.#started(params.item, out);
      case 'item/agentMessage/delta':
        return this.#delta(params, 'text', out);
      case 'item/commandExecution/outputDelta':
        return this.#delta(params, 'output', out);
      case 'item/completed':
        return this.#completed(params.item, out);
      case 'error':
        return this.#event('notice', { code: 'warning', detail: String(params.error?.message).slice(0, LONGEST_DETAIL) }, out);
    }
  }

  /** The server says that it is over. */
  over({ status, error }, out) {
    this.#closeItems(out);
    const interrupted = this.cancels.length > 0 ? 'cancelled' : 'failed';
    const ended = { completed: 'completed', failed: 'failed', interrupted }[status] ?? 'unknown';
    this.#settle(ended, error?.message ?? '', { tag: 'reusable' }, 'turn_ended', out);
  }

  /** Its process is gone. */
  lost(clean, out) {
    if (this.native === undefined) out.push(unknown(this.id, 'program_ended'));
    this.#closeItems(out);
    const status = clean && this.cancels.length > 0 ? 'cancelled' : 'unknown';
    this.#settle(status, '', { tag: 'retire', val: 'program_ended' }, 'program_ended', out);
  }

  #settle(status, detail, afterwards, code, out) {
    // What no native message confirmed: nobody knows what became of it.
    for (const id of [...this.first, ...this.steers]) out.push(unknown(id, code));
    const failed = { code: undefined, httpStatus: undefined, detail: detail.slice(0, LONGEST_DETAIL) };
    const failure = status === 'failed' ? failed : undefined;
    out.push({ tag: 'settled', val: { run: this.id, status, failure, afterwards } });
    const cancelled = { cancelled: done, unknown: (id) => unknown(id, code) }[status];
    for (const id of this.cancels) out.push(cancelled?.(id) ?? rejected(id, 'not_running'));
  }

  #started(item, out) {
    const body = bodyOf(item);
    if (!body || this.#items.has(item.id)) return;
    this.#event('item-started', { key: item.id, body }, out);
    // A copy: what was said above stays as it is.
    this.#items.set(item.id, { tag: body.tag, val: { ...body.val } });
  }

  #delta({ itemId, delta }, kind, out) {
    const body = this.#items.get(itemId);
    if (!body) return;
    const told = body.tag === 'message' ? 'text' : 'output';
    const before = body.val[told] ?? '';
    if (before.length < MOST_OUTPUT) body.val[told] = before + delta;
    this.#event('delta', { key: itemId, kind, index: 0, text: delta }, out);
  }

  #completed(item, out) {
    if (item.type === 'userMessage') return this.#confirmed(item.clientId, out);
    const body = bodyOf(item);
    if (!body) return;
    this.#items.delete(item.id);
    const status = item.status === 'failed' ? 'failed' : 'completed';
    this.#event('item-ended', { item: { key: item.id, body }, status }, out);
  }

  /** The message is in the thread, and the thread on disk from its first message on. */
  #confirmed(id, out) {
    if (this.first[0] === id) {
      this.#event('native-session', { id: this.thread, durable: true }, out);
      out.push(...this.first.map(done));
      this.first = [];
    } else if (confirmedSteer(this, id)) {
      out.push(done(id));
    }
  }

  #closeItems(out) {
    for (const [key, body] of this.#items) this.#event('item-ended', { item: { key, body }, status: 'incomplete' }, out);
    this.#items.clear();
  }

  #event(tag, val, out) {
    out.push({ tag: 'event', val: { origin: { tag: 'root', val: this.id }, body: { tag, val } } });
  }
}

/** Takes a steered message off those that wait; false if it does not wait. */
export function confirmedSteer(turn, id) {
  const at = turn.steers.indexOf(id);
  if (at >= 0) turn.steers.splice(at, 1);
  return at >= 0;
}

function bodyOf(item) {
  switch (item.type) {
    case 'agentMessage':
      return { tag: 'message', val: { text: item.text, phase: undefined } };
    case 'commandExecution':
      return {
        tag: 'command',
        val: {
          command: item.command,
          cwd: item.cwd ?? undefined,
          output: item.aggregatedOutput?.slice(0, MOST_OUTPUT) ?? undefined,
          exitCode: item.exitCode ?? undefined,
          durationMs: item.durationMs ?? undefined,
        },
      };
  }
}

function receipt(id, outcome) {
  return { tag: 'receipt', val: { id, outcome } };
}

export function done(id) {
  return receipt(id, { tag: 'done' });
}

export function rejected(id, code) {
  return receipt(id, { tag: 'rejected', val: code });
}

export function unknown(id, code) {
  return receipt(id, { tag: 'unknown', val: code });
}
