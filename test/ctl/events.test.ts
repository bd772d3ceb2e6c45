import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { before, test } from 'node:test'
import { setImmediate, setTimeout as delay } from 'node:timers/promises'
import { limits } from '../../src/config/limits.ts'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtl, startCtlStage, writeProfile } from './support/ctl-stage.ts'
import type { TestContext } from 'node:test'
import type { EventBody } from '../../src/core/events/event.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { ObservedState } from '../../src/core/vm/record.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const id = 'web-1' as VmId

async function stageWithVm(t: TestContext): Promise<CtlStage> {
  const stage = await startCtlStage(t, pki)
  const images = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/k#sha256=${SHA}`
  const { status, err } = await stage.run(`vm create ${id} ${images} --ipv4 192.0.2.10`)
  assert.equal(status, 0, err)
  return stage
}

const show = ({ host }: CtlStage, state: ObservedState): void =>
  void host.store.vms.recordProgress(id, { observed: { state, sinceMs: 1 }, nowMs: Date.UTC(2030, 0, 1) })

test('the history of a VM is a table, and is there when the VM is gone', async (t) => {
  const stage = await stageWithVm(t)
  show(stage, 'starting')
  const { status, out } = await stage.run(`vm history ${id}`)
  assert.equal(status, 0)
  assert.match(out, /^TIME +WHAT\n.*Z +created\n2030-01-01 00:00:00Z +pending → starting\n$/)
  await stage.run(`vm rm ${id}`)
  stage.host.store.vms.forget(id, Date.UTC(2030, 0, 2))
  assert.match((await stage.run(`vm history ${id}`)).out, /deletion requested .*\n2030-01-02 .* deleted\n$/)
  const { items } = JSON.parse((await stage.run(`vm history ${id} --json`)).out)
  assert.deepEqual(
    items.map(({ kind }: { kind: string }) => kind),
    ['vm_created', 'vm_state', 'vm_requested', 'vm_deleted'],
  )
  assert.match((await stage.run('vm history other')).out, /^no events of other are kept/)
})

test('events of certificates and revocation lists are shown in words', async (t) => {
  const stage = await startCtlStage(t, pki)
  const [notAfterMs, nextUpdateMs] = [Date.UTC(2030, 1, 1), Date.UTC(2030, 1, 2)]
  const list = { listener: 'controller', issuer: 'CN=one', revoked: 2, nextUpdateMs }
  const bodies: readonly EventBody[] = [
    { kind: 'certificate_ends_soon', certificate: 'client', notAfterMs, name: 'metrics', serial: 'ab' },
    { kind: 'certificate_ended', certificate: 'server', notAfterMs },
    { kind: 'certificate_replaced', certificate: 'server', notAfterMs },
    { kind: 'revocation_list_replaced', ...list },
    { kind: 'revocation_list_overdue', ...list },
  ]
  stage.host.store.events.add(Date.UTC(2030, 0, 1), ...bodies)
  const { out } = await stage.run('events')
  const words = out.split('\n').map((line) => line.replace(/^.*00Z +(?:- +)?/, ''))
  assert.deepEqual(words.slice(1, -1), [
    'certificate client metrics (ab) ends soon: 2030-02-01T00:00:00.000Z',
    'certificate server has ended: 2030-02-01T00:00:00.000Z',
    'certificate server: replaced, ends 2030-02-01T00:00:00.000Z',
    'revocation list of CN=one (controller): replaced, 2 revoked',
    'revocation list of CN=one (controller): overdue since 2030-02-02T00:00:00.000Z',
  ])
})

test('the events of the host are a table for eyes, and a line each for programs', async (t) => {
  const stage = await stageWithVm(t)
  show(stage, 'starting')
  const { out } = await stage.run('events')
  assert.match(
    out,
    /^TIME +VM +WHAT\n.*Z +web-1 +created\n2030-01-01 00:00:00Z +web-1 +pending → starting\n$/,
  )
  const lines = (await stage.run('events --json')).out.trimEnd().split('\n')
  assert.deepEqual(
    lines.map((line) => JSON.parse(line).kind),
    ['vm_created', 'vm_state'],
  )
  const { sequence } = JSON.parse(lines[0] ?? '')
  assert.equal((await stage.run(`events --json --after ${sequence}`)).out.trimEnd(), lines[1])
  assert.equal((await stage.run('events --json --vm web-2')).out, '')
})

test('what is missing is said to a reader that asked for it, and not to one that wants what is kept', async (t) => {
  const stage = await stageWithVm(t)
  const body: EventBody = { kind: 'admission_refused', vmId: id, code: 'insufficient_capacity', detail: 'x' }
  const { events } = stage.host.store
  events.add(1, ...Array.from({ length: limits.eventsMax + limits.eventsPruneEvery }, () => body))
  const missing = `events are missing: those up to number ${events.keptAfter} are no longer kept`
  assert.match((await stage.run('events --after 1')).err, new RegExp(missing))
  assert.equal((await stage.run('events')).err, '')
  const [first = ''] = (await stage.run('events --after 1 --json')).out.split('\n')
  assert.equal(JSON.parse(first).missed, true)
})

test('a number that the host does not know is named, with what follows it', async (t) => {
  const stage = await stageWithVm(t)
  const { status, err } = await stage.run('events --after 99999999')
  assert.equal(status, 0)
  assert.match(
    err,
    /: events may be missing: number 99999999 is not one of this host, .*; all events that are kept follow\n$/,
  )
})

test('events are followed over a daemon that was away', async (t) => {
  const stage = await stageWithVm(t)
  const out: string[] = []
  const ending = new AbortController()
  const profile = writeProfile(t, { pki, url: `https://127.0.0.1:${stage.host.port}` })
  const { result, printed } = startCtl(['events', '--follow', '--after', '0', '--profile', profile], {
    shell: {
      stdout: { write: (text) => void out.push(text), isTty: false, columns: 0 },
      sleep: () => (ending.signal.aborted ? Promise.reject(new Error('ended')) : Promise.resolve()),
    },
  })
  await eventually(() => out.join('').includes('created'))
  await stage.host.close(1000)
  await eventually(() => /connecting again/.test(printed()))
  show(stage, 'starting')
  await stage.host.reopen()
  await eventually(() => out.join('').includes('pending → starting'))
  ending.abort()
  await stage.host.close(1000)
  await result
  assert.equal(out.join('').split('created').length, 2, 'nothing is shown twice')
})

test('another server in the place of the daemon ends what follows it, with advice', async (t) => {
  for (const line of ['events --follow --after 0', `vm wait ${id} --timeout 1h`]) {
    const stage = await stageWithVm(t)
    const out: string[] = []
    let pausesLeft = Infinity
    const sleep = (ms: number, signal: AbortSignal): Promise<void> => {
      if (ms > limits.clientPollMs) return delay(ms, undefined, { signal })
      pausesLeft -= 1
      return pausesLeft < 0 ? Promise.reject(new Error('it goes on')) : setImmediate()
    }
    const stdout = { write: (text: string) => void out.push(text), isTty: false, columns: 0 }
    const { result, printed } = stage.start(line, { shell: { stdout, sleep } })
    const seen = (): string => out.join('') + printed()
    await eventually(() => /created|pending/.test(seen()))
    await stage.host.close(0)
    await eventually(() => /connecting again|trying again/.test(seen()))
    const stranger = await makePki()
    writeFileSync(stage.host.files.certificate, stranger.server.certificate)
    writeFileSync(stage.host.files.key, stranger.server.key)
    await stage.host.reopen()
    pausesLeft = 20
    const { status, err } = await result
    assert.equal(status, 4, err)
    assert.match(
      err,
      /is not signed by our authority.*\n {2}ca in .*\n {2}if it is, another machine is answering/,
    )
  }
})

test('a number of an event is checked before the daemon is asked', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { status, err } = await stage.run('events --after yesterday')
  assert.equal(status, 2)
  assert.match(err, /--after yesterday is not the number of an event/)
})
