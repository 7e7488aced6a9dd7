// Every resource through the official Node SDK, as a user of it writes. Started by `test_node.py` with a running server.

import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { test } from 'node:test';
import { pathToFileURL } from 'node:url';

const require = createRequire(process.env.BERTH_TEST_NODE + '/');
const { default: OpenAI, toFile } = await import(pathToFileURL(require.resolve('openai')).href);

const client = new OpenAI({ baseURL: process.env.BERTH_URL + '/v1', apiKey: process.env.BERTH_KEY, maxRetries: 0 });
const { agents, agents: { sessions, environments, vaults } } = client.beta;
const skill = (name) => toFile(Buffer.from(`---\nname: ${name}\ndescription: About ${name}.\n---`), 'skill/SKILL.md');

async function ids(pages) {
  const found = [];
  for await (const one of await pages) found.push(one.id);
  return found;
}

async function gone(promise) {
  await assert.rejects(promise, (error) => error instanceof OpenAI.NotFoundError);
}

test('agents', async () => {
  const agent = await agents.create({ model: 'm', name: 'n', metadata: { a: 'b' } });
  assert.deepEqual(await agents.retrieve(agent.id), agent);
  assert.ok((await ids(agents.list({ limit: 1 }))).includes(agent.id));
  assert.equal((await agents.update(agent.id, { name: null })).name, null);
  assert.deepEqual(await agents.delete(agent.id), { id: agent.id, object: 'agent.deleted', deleted: true });
  await gone(agents.retrieve(agent.id));
});

test('a session runs a turn through the helper, and its history reads back', async () => {
  const session = await sessions.create({ agent: { model: process.env.BERTH_MODEL }, environment: { type: 'none' }, input: 'say hello', metadata: {} });
  const until = async (status) => {
    for (;;) {
      const now = await sessions.retrieve(session.id);
      if (now.status === status) return now;
      assert.notEqual(now.status, 'failed');
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  };
  await until('idle');
  const turns = await ids(sessions.turns.list(session.id, { limit: 1 }));
  assert.equal(turns.length, 1);
  assert.equal((await sessions.turns.retrieve(turns[0], { session_id: session.id })).status, 'completed');
  assert.ok((await ids(sessions.items.list(session.id, { limit: 1, order: 'asc' }))).length >= 2);
  assert.deepEqual(await ids(sessions.subagents.list(session.id)), []);
  assert.deepEqual(await ids(sessions.artifacts.list(session.id)), []);
  await gone(sessions.artifacts.retrieve('x', { session_id: session.id }));
  await gone(sessions.subagents.retrieve('x', { session_id: session.id }));
  assert.deepEqual((await sessions.update(session.id, { metadata: { k: 'v' } })).metadata, { k: 'v' });
  assert.ok((await ids(sessions.list({ limit: 2 }))).includes(session.id));
  const events = await sessions.events.stream(session.id);
  await sessions.events.create(session.id, { events: [{ type: 'agent.session.input.message', input: [{ role: 'user', content: [{ type: 'input_text', text: 'again' }] }] }] });
  const seen = [];
  for await (const event of events) {
    seen.push(event.type);
    if (event.type === 'agent.session.idle' && seen.includes('agent.session.turn.completed')) break;
  }
  assert.ok(seen.includes('agent.session.turn.created'));
  await until('idle');
  assert.equal((await sessions.delete(session.id)).deleted, true);
  await gone(sessions.retrieve(session.id));
});

test('environment templates', async () => {
  const { templates } = environments;
  const made = await templates.create({ name: 't', env: { A: 'secret' }, network: { access: 'enabled' }, setup_commands: [{ command: 'true' }] });
  assert.equal(JSON.stringify(made).includes('secret'), false);
  assert.deepEqual(await templates.retrieve(made.id), made);
  assert.equal((await templates.update(made.id, { name: null })).name, null);
  assert.ok((await ids(templates.list())).includes(made.id));
  assert.equal((await templates.delete(made.id)).object, 'agent.environment.template.deleted');
  await gone(environments.retrieve('env_x'));
});

test('vaults and credentials', async () => {
  const vault = await vaults.create({ name: 'v' });
  assert.deepEqual(await vaults.retrieve(vault.id), vault);
  assert.ok((await ids(vaults.list({ status: ['active'] }))).includes(vault.id));
  const { credentials } = vaults;
  const made = await credentials.create(vault.id, { name: 'c', auth: { type: 'static_bearer', mcp_server_url: 'https://mcp.example.com/', token: 't' } });
  assert.deepEqual(await credentials.retrieve(made.id, { vault_id: vault.id }), made);
  assert.equal((await credentials.update(made.id, { vault_id: vault.id, auth: { type: 'static_bearer', token: 'u' } })).id, made.id);
  assert.deepEqual(await ids(credentials.list(vault.id)), [made.id]);
  assert.equal((await credentials.delete(made.id, { vault_id: vault.id })).deleted, true);
  assert.equal((await vaults.delete(vault.id)).object, 'vault.deleted');
});

test('files', async () => {
  // This SDK sends the file before the scalar fields.
  const file = await client.files.create({ file: await toFile(Buffer.from('hello'), 'a.txt'), purpose: 'user_data' });
  assert.deepEqual(await client.files.retrieve(file.id), file);
  assert.ok((await ids(client.files.list({ purpose: 'user_data' }))).includes(file.id));
  await assert.rejects(client.files.content(file.id), (error) => error instanceof OpenAI.BadRequestError);
  assert.deepEqual(await client.files.delete(file.id), { id: file.id, object: 'file', deleted: true });
  await gone(client.files.delete(file.id));
});

test('skills and versions', async () => {
  const made = await client.skills.create({ files: [await skill('one')] });
  const two = await client.skills.versions.create(made.id, { files: [await skill('two')], default: true });
  assert.equal((await client.skills.retrieve(made.id)).name, 'two');
  assert.deepEqual(await client.skills.versions.retrieve(two.version, { skill_id: made.id }), two);
  assert.equal((await ids(client.skills.versions.list(made.id, { limit: 1, order: 'asc' }))).length, 2);
  for (const content of [await client.skills.content.retrieve(made.id), await client.skills.versions.content.retrieve('1', { skill_id: made.id })]) {
    assert.equal(Buffer.from(await content.arrayBuffer()).subarray(0, 2).toString(), 'PK');
  }
  assert.equal((await client.skills.update(made.id, { default_version: '1' })).name, 'one');
  assert.equal((await client.skills.versions.delete('2', { skill_id: made.id })).version, '2');
  assert.ok((await ids(client.skills.list())).includes(made.id));
  assert.equal((await client.skills.delete(made.id)).deleted, true);
  await gone(client.skills.retrieve(made.id));
});
