/** `vmhostctl console` at a terminal in memory, against a daemon that the test plays: how it ends, and refusals. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { problem } from './support/console-server.ts'
import { attach, startConsoleStage } from './support/console-stage.ts'
import { ctl } from './support/ctl-stage.ts'
import { FakeTerminal } from './support/fake-terminal.ts'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { Stage } from './support/console-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const startStage = (t: TestContext): Promise<Stage> => startConsoleStage(t, pki)

test('a VM that stops, moves or is deleted ends the console without a failure, and with a message', async (t) => {
  for (const [reason, says] of [
    ['vm_stopped', /web-1 has stopped, and its console session with it\r\n$/],
    ['vm_stopped: this was its last output', /web-1 has stopped.*: this was its last output\r\n$/],
    ['vm_deleted', /web-1 is gone\r\n$/],
    ['vm_moved: host-2', /web-1 is at another host now: host-2\r\n$/],
  ] as const) {
    const { served, result, terminal } = await attach(await startStage(t))
    served.ws.close(1000, reason)
    const { status, err } = await result
    assert.equal(status, 0)
    assert.match(err, says)
    assert.equal(terminal.isRaw, false)
  }
})

test("the status of a shell over SSH is the program's own", async (t) => {
  for (const [reason, status] of [
    ['shell_ended: exit status 0', 0],
    ['shell_ended: exit status 42', 42],
    ['shell_ended: exit status 255', 255],
    // RFC 4254 has 32 bits for the status; a process has eight, and must not end with success here.
    ['shell_ended: exit status 300', 44],
    ['shell_ended: exit status 256', 1],
    ['shell_ended: exit status 4294967295', 255],
  ] as const) {
    const { served, result } = await attach(await startStage(t), { options: ' --ssh --user admin' })
    assert.equal(served.query.get('user'), 'admin')
    served.ws.close(1000, reason)
    const ended = await result
    assert.equal(ended.status, status)
    assert.doesNotMatch(ended.err, /vmhostctl: .*shell.*ended/)
  }
})

test('each other end has a message with what to do, and its status', async (t) => {
  const cases = [
    [1000, 'shell_ended: killed by TERM', 1, /web-1: the shell has ended: killed by TERM/],
    [1001, 'daemon_stops', 4, /web-1: the daemon stops; the VM goes on\n {2}connect again/],
    [
      1011,
      'ssh_no_address',
      1,
      /web-1 has no address to connect to\n {2}vmhostctl console web-1 needs no address/,
    ],
    [
      1011,
      'ssh_refused: connect ECONNREFUSED',
      1,
      /nothing listens .*: connect ECONNREFUSED\n {2}does the guest/,
    ],
    [1011, 'ssh_key_refused', 1, /does not accept the daemon's key for this user\n {2}is --user right/],
    [1011, 'ssh_timed_out', 1, /web-1: the guest did not answer in time/],
    [1011, 'internal', 1, /web-1: a bug in vmhostd\n {2}the log/],
    [1009, '', 1, /the daemon closed the console of web-1 with status 1009\n/],
    [1008, 'something_new: more', 1, /with status 1008, something_new: more\n/],
  ] as const
  for (const [code, reason, status, says] of cases) {
    const { served, result, terminal } = await attach(await startStage(t), { options: ' --ssh' })
    served.ws.close(code, reason)
    const ended = await result
    assert.equal(ended.status, status, reason)
    assert.match(ended.err, says)
    assert.equal(terminal.isRaw, false)
  }
})

test('a shell whose connection breaks is lost, with status 4', async (t) => {
  const { served, result } = await attach(await startStage(t), { options: ' --ssh' })
  served.ws.terminate()
  const { status, err } = await result
  assert.equal(status, 4)
  assert.match(err, /the connection broke, and the shell in web-1 ended with it/)
})

test('a refusal leaves the terminal as it was and says what to do', async (t) => {
  const { server, start } = await startStage(t)
  const fingerprint = `SHA256:${'x'.repeat(40)}+/9`
  const changed = {
    status: 409,
    body: JSON.stringify({
      ...{ code: 'ssh_host_key_changed', status: 409, request_id: 'req-1', retryable: false },
      detail: `the guest of web-1 has another host key; to accept it, connect with accept_host_key=${fingerprint.replaceAll('+', '%2B')}`,
    }),
  }
  for (const [refused, says] of [
    [
      problem(409, 'vm_not_running'),
      /vmhostctl vm start web-1.*\n {2}vmhostctl console web-1 --follow waits/,
    ],
    [problem(429, 'console_viewers_full', true), /another viewer must leave the console of web-1 first/],
    [changed, /vmhostctl console web-1 --ssh --accept-host-key SHA256:x{40}\+\/9\n/],
    [problem(409, 'vm_migrated'), /--profile FILE names the profile of its new host/],
    [problem(404, 'not_found'), /vmhostctl vm ls shows the VMs there are/],
  ] as const) {
    server.refusals.push(refused)
    const terminal = new FakeTerminal()
    terminal.lend = () => assert.fail('it was lent to the guest')
    const { status, err } = await start('console web-1', terminal).result
    assert.equal(status, 1)
    assert.match(err, says)
  }
})

test('an error while attached restores the terminal before the message', async (t) => {
  const stage = await startStage(t)
  const { terminal, result, served } = await attach(stage)
  stage.server.refusals.push(problem(403, 'forbidden'))
  served.ws.terminate()
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: refused: forbidden\n/)
  assert.equal(terminal.isRaw, false)
})

test('a hung-up terminal ends the console', async (t) => {
  const { terminal, result } = await attach(await startStage(t))
  terminal.end()
  assert.equal((await result).status, 0)
})

test('a wrong command line is refused before any request', async () => {
  const fingerprint = `SHA256:${'x'.repeat(43)}`
  for (const [line, says] of [
    ['console', /missing required argument 'VM'/],
    ['console a b', /Expected 1 argument but got 2: a, b/],
    ['console a --ssh --follow', /a shell cannot --follow a VM/],
    ['console a --user root', /--user has no effect without --ssh/],
    [`console a --accept-host-key ${fingerprint}`, /--accept-host-key has no effect without --ssh/],
    ['console a --ssh --accept-host-key MD5:12', /--accept-host-key MD5:12 is not a fingerprint/],
  ] as const) {
    const { status, err } = await ctl(line.split(' '))
    assert.equal(status, 2, line)
    assert.match(err, says)
  }
})
