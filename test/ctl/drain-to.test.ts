/** `vmhostctl host drain --to`: the VMs of a host move to others. */
import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create, settle } from './support/vms.ts'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { VmRecord } from '../../src/core/vm/record.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage, RunOptions } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const SOURCE_URL = 'https://10.0.0.1:9001'

/** A host with VMs that run, and two others that read its offers. No daemon acts on its host. */
async function drainStage(t: TestContext, ids: readonly string[] = ['web-1', 'web-2', 'web-3']) {
  const source = await startCtlStage(t, pki)
  const others = [
    await startCtlStage(t, pki, { settings: { host: { id: 'host-2' } } }),
    await startCtlStage(t, pki, { settings: { host: { id: 'host-3' } } }),
  ] as const
  for (const [index, { host }] of others.entries()) {
    host.host.sourceHosts.peers.set(SOURCE_URL, source.host.departures)
    host.host.sourceHosts.node = `host-${index + 2}` as NodeName
  }
  for (const id of ids) {
    assert.equal((await create(source, id)).status, 0)
    settle(source, id)
  }
  const at = ({ host }: CtlStage, id: string): VmRecord | undefined => host.store.vms.get(id as VmId)
  const shell = { nowMs: () => source.host.clock.now() }
  const line = (more: string): string =>
    `host drain --source-url ${SOURCE_URL} ${others.map(({ profile }) => `--to ${profile}`).join(' ')} ${more}`
  return {
    source,
    first: others[0],
    second: others[1],
    at,
    /** Names the VMs that come to a host. */
    coming: (stage: CtlStage) => ids.filter((id) => at(stage, id) !== undefined),
    run: (more = '') => source.run(line(more), { shell }),
    start: (more = '', options: RunOptions = {}) =>
      source.start(line(more), { ...options, shell: { ...shell, ...options.shell } }),
    /** Lets a guest live at its destination, and its record at the source go, as both daemons do. */
    arrive: async (stage: CtlStage, id: string) => {
      const [here, there] = [at(source, id)?.departure, at(stage, id)?.arrival]
      assert.ok(here && there, id)
      source.host.store.departures.set(id as VmId, { ...here, stage: 'released', lastRound: 2 }, 1)
      stage.host.store.arrivals.set(id as VmId, { ...there, stage: 'released', round: 2 }, 1)
      settle(stage, id)
      await eventually(() => at(source, id)?.deleting === true)
      source.host.store.vms.forget(id as VmId, 1)
    },
  }
}

test('VMs move a few at a time, each to the host with the most free memory', async (t) => {
  const stage = await drainStage(t)
  const { source, first, second } = stage
  const running = stage.start('--at-once 1 --reason kernel')
  await eventually(() => running.printed().includes('web-1: waiting for the source\n'))
  assert.deepEqual([source.host.store.maintenance.get().state, stage.coming(first)], ['cordoned', ['web-1']])
  assert.equal(stage.at(source, 'web-2')?.departure, undefined)
  await stage.arrive(first, 'web-1')
  await eventually(() => stage.coming(second).includes('web-2'))
  await stage.arrive(second, 'web-2')
  await eventually(() => stage.coming(first).includes('web-3'))
  await stage.arrive(first, 'web-3')
  const { status, out } = await running.result
  assert.deepEqual([status, out], [0, '3 VMs moved; no VM is left\n'])
  assert.match(running.printed(), /\nweb-1: moved to host-2 \(127\.0\.0\.1\), running \(1 of 3\)\n/)
  assert.match((await source.run('host status')).out, /^cordoned since .*: kernel\n$/)
})

test('the same command again continues the moves that have begun, and begins others', async (t) => {
  const stage = await drainStage(t, ['web-1', 'web-2'])
  const { source, first, second } = stage
  const { status, out, err } = await stage.run('--at-once 1 --timeout 0')
  assert.equal(status, 3)
  assert.match(err, /web-1 is not at 127\.0\.0\.1 after 0 s; waiting for the source\n/)
  assert.equal(out, '0 VMs moved; 2 are left: web-1, web-2\n')
  const id = stage.at(source, 'web-1')?.departure?.id
  const again = stage.start()
  await eventually(() => stage.coming(second).includes('web-2'))
  assert.equal(stage.at(source, 'web-1')?.departure?.id, id)
  assert.deepEqual(stage.coming(first), ['web-1'])
  await stage.arrive(first, 'web-1')
  await stage.arrive(second, 'web-2')
  assert.deepEqual(await again.result.then((ran) => [ran.status, ran.out]), [
    0,
    '2 VMs moved; no VM is left\n',
  ])
})

test('a VM that one host refuses is offered to the next; one that none takes stays, and does not stop others', async (t) => {
  const stage = await drainStage(t, ['web-1', 'web-2'])
  const { source, first, second } = stage
  assert.equal((await first.run('host cordon')).status, 0)
  const running = stage.start('--at-once 1')
  await eventually(() => stage.coming(second).includes('web-1'))
  assert.deepEqual(stage.coming(first), [])
  assert.equal((await second.run('host cordon --reason later')).status, 0)
  await stage.arrive(second, 'web-1')
  const { status, out, err } = await running.result
  assert.deepEqual([status, out], [1, '1 VM moved; 1 is left: web-2\n'])
  assert.match(err, /vmhostctl: web-2 is accepted by no destination\n/)
  assert.match(err, /\n {2}127\.0\.0\.1: this host is cordoned \(later\)/)
  assert.equal(stage.at(source, 'web-2')?.departure?.stage, 'withdrawn')
})

test('a VM that is deleted meanwhile does not fail the drain', async (t) => {
  const stage = await drainStage(t)
  const { source, first } = stage
  const running = stage.start('--at-once 1')
  await eventually(() => running.printed().includes('web-1: waiting for the source\n'))
  for (const id of ['web-2', 'web-3']) assert.equal((await source.run(`vm rm ${id}`)).status, 0)
  source.host.store.vms.forget('web-2' as VmId, 1)
  source.host.store.vms.recordProgress('web-3' as VmId, {
    observed: { state: 'deleting', sinceMs: 1 },
    nowMs: 1,
  })
  await stage.arrive(first, 'web-1')
  const { status, out, err } = await running.result
  assert.deepEqual([status, out], [0, '1 VM moved; 1 is left: web-3\n'])
  assert.match(err, /\(1 of 3\)\nweb-2: deleted meanwhile\nweb-3: deleted meanwhile\n$/)
})

test('a VM that is deleted while it moves does not fail it either', async (t) => {
  const stage = await drainStage(t, ['web-1'])
  const running = stage.start()
  await eventually(() => running.printed().includes('web-1: waiting for the source\n'))
  assert.equal((await stage.source.run('vm rm web-1')).status, 0)
  const { status, err } = await running.result
  assert.equal(status, 0)
  assert.match(err, /\nweb-1: deleted meanwhile\n$/)
})

test('guests that stay come to rest if that is asked for too', async (t) => {
  const stage = await drainStage(t, ['web-1', 'web-2'])
  const { source, first } = stage
  assert.equal((await source.run('vm set web-2 --label tier=web')).status, 0)
  settle(source, 'web-2')
  const running = stage.start('--label tier=web --guests sleep')
  await eventually(() => stage.coming(first).length + stage.coming(stage.second).length === 1)
  await stage.arrive(stage.coming(first).length === 1 ? first : stage.second, 'web-2')
  await eventually(() => running.printed().includes('draining: 1 guest is left\n'))
  assert.equal(source.host.store.maintenance.get().drain?.guests, 'sleep')
  source.host.store.vms.recordProgress('web-1' as VmId, {
    observed: { state: 'sleeping', sinceMs: 1 },
    nowMs: 1,
  })
  source.host.store.maintenance.noteEmpty(true, source.host.clock.now())
  const { status, out } = await running.result
  assert.deepEqual([status, out], [0, '1 VM moved; 1 is left: web-1\ndrained: no guest is left\n'])
})

/** Ends a drain, as the daemon does when its last guest is saved. */
function rest({ source }: Awaited<ReturnType<typeof drainStage>>, ids: readonly string[]): void {
  const { store, clock } = source.host
  for (const id of ids)
    store.vms.recordProgress(id as VmId, { observed: { state: 'sleeping', sinceMs: 1 }, nowMs: 1 })
  store.maintenance.noteEmpty(true, clock.now())
}

test('the status says that a VM did not move, also if its guest came to rest', async (t) => {
  const stage = await drainStage(t, ['web-1'])
  for (const other of [stage.first, stage.second]) assert.equal((await other.run('host cordon')).status, 0)
  const running = stage.start('--guests sleep')
  await eventually(() => running.printed().includes('draining: 1 guest is left\n'))
  rest(stage, ['web-1'])
  const { status, out, err } = await running.result
  assert.deepEqual([status, out], [1, '0 VMs moved; 1 is left: web-1\ndrained: no guest is left\n'])
  assert.match(err, /vmhostctl: web-1 is accepted by no destination\n/)
})

test('on a drained host no move begins, and the command says so; one that has begun is followed', async (t) => {
  const stage = await drainStage(t, ['web-1', 'web-2'])
  const { source, first } = stage
  assert.equal((await stage.run('--at-once 1 --timeout 0')).status, 3)
  assert.equal((await source.run('host drain --timeout 0')).status, 3)
  rest(stage, ['web-2'])
  const refused = await stage.run()
  assert.deepEqual([refused.status, refused.out], [1, ''])
  assert.match(
    refused.err,
    /the host is drained: its guests rest, and none begins to move\n {2}vmhostctl host cordon/,
  )
  const running = stage.start('--guests sleep')
  await eventually(() => running.printed().includes('web-1: waiting for the source\n'))
  await stage.arrive(first, 'web-1')
  const { status, out, err } = await running.result
  assert.deepEqual([status, out], [1, '1 VM moved; 1 is left: web-2\ndrained: no guest is left\n'])
  assert.match(err, /vmhostctl: the host is drained: its guests rest, and none begins to move\n/)
  assert.equal(stage.at(source, 'web-2')?.departure, undefined)
  const asJson = await stage.run('--guests sleep --json')
  assert.equal(asJson.status, 1)
  assert.match(asJson.out, /^\{"stage":"emptied","moved":0,"left":\["web-2"\]\}\n/)
  assert.equal(JSON.parse(asJson.err).error.code, 'conflict')
  const other = await stage.run('--guests sleep --label tier=web')
  assert.deepEqual(
    [other.status, other.out],
    [0, '0 VMs moved; 1 is left: web-2\ndrained: no guest is left\n'],
  )
})

test('on a terminal one line shows all moves; for a program each change is a line of JSON', async (t) => {
  const stage = await drainStage(t, ['web-1', 'web-2'])
  const whereIs = (id: string) => (stage.coming(stage.first).includes(id) ? stage.first : stage.second)
  const running = stage.start('', { terminalColumns: 200 })
  await eventually(() => /0 of 2 moved; web-\d: waiting for the source; web-\d: wait/.test(running.printed()))
  await stage.arrive(whereIs('web-1'), 'web-1')
  await eventually(() => running.printed().includes('1 of 2 moved; web-2: waiting for the source'))
  const lines: { readonly stage?: string }[] = []
  const write = (text: string): void =>
    void lines.push(
      ...text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    )
  const program = stage.start('--json', { shell: { stdout: { write, isTty: false, columns: 0 } } })
  await eventually(() => lines.some(({ stage: seen }) => seen === 'pulling'))
  await stage.arrive(whereIs('web-2'), 'web-2')
  assert.equal((await program.result).status, 0)
  assert.deepEqual(lines.at(-1), { stage: 'emptied', moved: 1, left: [] })
  assert.equal(lines.at(-2)?.stage, 'moved')
  assert.equal((await running.result).status, 0)
})

test('what moves cannot mean is refused before anything is done', async (t) => {
  const stage = await drainStage(t, [])
  const { source } = stage
  for (const line of ['--label a=b', '--cold', `--source-url ${SOURCE_URL}`])
    assert.match((await source.run(`host drain ${line}`)).err, /has no effect without --to/, line)
  const itself = await source.run(`host drain --to ${source.profile} --source-url ${SOURCE_URL}`)
  assert.equal(itself.status, 2)
  assert.match(itself.err, /which is the host that is to be emptied \(host-1\)/)
  assert.match(
    (await source.run(`host drain --to ${stage.first.profile}`)).err,
    /at which no other host finds it/,
  )
  await stage.second.host.close(0)
  assert.equal((await stage.run()).status, 4)
  assert.equal(source.host.store.maintenance.get().state, 'schedulable')
})
