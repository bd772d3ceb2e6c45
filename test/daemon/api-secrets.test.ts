import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { createBody, makePki, SHA, startControllerHost } from './support/controller-host.ts'
import { answersWithout } from './support/answers-without.ts'
import { eventually } from './support/eventually.ts'
import type { Call, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const CANARY = 'Canary7f3b'
const url = `https://images.example.net/${CANARY}-path/k?X-Amz-Signature=${CANARY}`

/** A request whose every secret place has the canary in it. */
const secretBody = (changes: object = {}) =>
  createBody({
    image: { rootfs: { url, sha256: SHA }, kernel: { url: `file:///srv/${CANARY}`, sha256: SHA } },
    user_data: `#cloud-config\npassword: ${CANARY}\n`,
    ssh_authorized_keys: [`ssh-ed25519 AAAA${CANARY}`],
    ...changes,
  })

test('URLs, user data, keys and bearer tokens are in no answer and in no log line', async (t) => {
  const host = await startControllerHost(t, pki)
  const put = (body: unknown, more: Partial<Call> = {}): Call => ({
    method: 'PUT',
    path: '/v1/vms/web-1',
    body,
    ...more,
  })
  const image = { rootfs: { url, sha256: 'short' }, kernel: { url: `ftp://${CANARY}`, sha256: SHA } }
  const calls: readonly Call[] = [
    put(secretBody()),
    put(secretBody()),
    put(secretBody({ disk: { size_mib: 4096 } })),
    put(secretBody({ image })),
    put(secretBody({ image: { ...image, rootfs: { url: `https://${CANARY}:x@h/`, sha256: SHA } } })),
    put(secretBody({ ssh_authorized_keys: [`${CANARY}\n`] })),
    put(secretBody({ user_data: 7, power: CANARY, compute: CANARY })),
    put(secretBody({ [`https://h/?sig=${CANARY}`]: 1 })),
    put(`{"user_data": "${CANARY}`),
    put(secretBody(), {
      headers: { authorization: `Bearer ${CANARY}${CANARY}`, 'content-type': `text/${CANARY}` },
    }),
    put(
      { user_data: CANARY, ssh_authorized_keys: [`ssh-ed25519 ${CANARY}`] },
      { path: '/v1/vms/web-1/seed' },
    ),
    put({ user_data: `${CANARY}\ud800`, ssh_authorized_keys: [CANARY] }, { path: '/v1/vms/web-1/seed' }),
    put({ kernel: { url, sha256: SHA } }, { path: '/v1/vms/web-1/boot' }),
    put({ rootfs: { url, sha256: SHA } }, { method: 'POST', path: '/v1/vms/web-1/rebuild' }),
    put(secretBody(), { headers: { 'if-match': `"${CANARY}"` } }),
    { path: '/v1/vms/web-1' },
    { path: '/v1/vms' },
    { path: `/v1/vms?token=${CANARY}` },
    { path: `/v1/vms?cursor=${CANARY}` },
    { path: `/v1/vms/web-1/console?sig=${CANARY}` },
    { path: `/nowhere?x=${CANARY}` },
    { path: `/v1/vms/%zz?x=${CANARY}` },
    { path: `/nowhere/https://h/?sig=${CANARY}` },
    { method: 'DELETE', path: '/v1/vms/web-1' },
  ]
  assert.deepEqual(await answersWithout(CANARY, host, calls), [200, 202, 400, 404, 409, 412, 415])
  const requests = () => host.logLines.filter((line) => line.includes('"message":"request"'))
  await eventually(() => requests().length >= calls.length)
  const logged = host.logLines.filter((line) => line.includes(CANARY))
  assert.deepEqual(logged, [])
  assert.equal(requests().length, calls.length)
})

test('a URL that reaches a log line in an error is redacted by the sink', async (t) => {
  const host = await startControllerHost(t, pki)
  Object.defineProperty(host.store.vms, 'get', {
    value: () => {
      throw new Error(`could not read ${url}`, { cause: new Error(`Bearer ${CANARY}${CANARY}`) })
    },
  })
  const answer = await host.call({ path: '/v1/vms/web-1' })
  assert.equal(answer.status, 500)
  assert.ok(!answer.text.includes(CANARY))
  const line =
    host.logLines.find((text) => text.includes('request failed: internal error')) ?? assert.fail('no line')
  assert.ok(!line.includes(`Signature=${CANARY}`) && !line.includes(`Bearer ${CANARY}`), line)
})
