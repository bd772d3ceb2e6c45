/** A refusal of the destination says whose it is, and its advice acts on that host. */
import assert from 'node:assert/strict'
import { copyFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { ctl } from './support/ctl-stage.ts'
import { TwoHosts, WEB } from './support/two-hosts.ts'
import { create, settle } from './support/vms.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('a refusal of the destination names that host, and its advice goes there', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { profile } = hosts.destination
  assert.equal((await hosts.destination.run('host cordon --reason kernel')).status, 0)
  const { status, err } = await hosts.run()
  assert.equal(status, 1)
  assert.match(err, /^vmhostctl: 127\.0\.0\.1: this host is cordoned \(kernel\)/)
  const advice = `\n  vmhostctl --profile ${profile} host status shows since when and why; vmhostctl --profile ${profile} host uncordon ends it\n`
  assert.ok(err.includes(advice), err)
  assert.equal((await ctl(['--profile', profile, 'host', 'uncordon'])).status, 0)
  assert.equal(hosts.destination.host.store.maintenance.get().state, 'schedulable')
})

test('a refusal of the source has neither', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { err } = await hosts.run('--expires 1000h')
  assert.match(err, /^vmhostctl: an offer must expire within/)
  assert.doesNotMatch(err, /--profile/)
})

test('the record of a guest that has left the destination is called that', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const back = hosts.back()
  const moved = await hosts.begin('--keep')
  await hosts.arrive()
  assert.equal((await moved.result).status, 0)
  const { status, err } = await back.run()
  assert.equal(status, 1)
  assert.match(
    err,
    /^vmhostctl: 127\.0\.0\.1: this host still has the record of web-1, whose guest has left for host-2: delete it first\n/,
  )
  assert.ok(err.includes(`vmhostctl --profile ${hosts.source.profile} vm get web-1 shows what is there`), err)
})

test('for a program the error has the answer of the daemon, and the host of one that is not its own', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  assert.equal((await hosts.destination.run('host cordon')).status, 0)
  const errorOf = (text: string) => JSON.parse(text).error
  for (const line of [
    hosts.line('--json'),
    `host drain --to ${hosts.destination.profile} --source-url https://10.0.0.1:9001 --json`,
  ]) {
    const { err } = await hosts.source.run(line, { shell: { nowMs: () => hosts.nowMs() } })
    const { code, host, vm, problem } = errorOf(err)
    assert.deepEqual([code, host, vm], ['host_cordoned', '127.0.0.1', WEB], line)
    assert.equal(problem?.code, 'host_cordoned', line)
  }
  const { err } = await hosts.run('--expires 1000h --json')
  const { host, problem } = errorOf(err)
  assert.deepEqual([host, problem.code], [undefined, 'invalid_request'])
})

test('a path that a shell takes apart is quoted in advice', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { source, destination } = hosts
  assert.equal((await create(destination, WEB)).status, 0)
  settle(destination, WEB)
  const path = destination.profile.replace('profile.toml', '$there.toml')
  copyFileSync(destination.profile, path)
  const line = `vm migrate web-1 --to ${path} --source-url https://10.0.0.1:9001`
  const { err } = await source.run(line, { shell: { nowMs: () => hosts.nowMs() } })
  assert.ok(err.includes(`vmhostctl --profile '${path}' vm get web-1 shows what is there`), err)
})
