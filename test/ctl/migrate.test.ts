import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import { ctl } from './support/ctl-stage.ts'
import { TwoHosts, WEB } from './support/two-hosts.ts'
import { settle } from './support/vms.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Fault } from '../../src/core/vm/record.ts'
import type { NodeName } from '../../src/core/migration/offer.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

const MIB = 1024 * 1024

test('a move shows its stages, and ends with the guest at the destination and no record at the source', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const running = await hosts.begin()
  hosts.departs({ stage: 'copying' })
  const progress = (percent: number, round = 1) => ({
    progress: { round, copiedBytes: percent * MIB, totalBytes: 100 * MIB },
  })
  await hosts.shows(running, () => hosts.arrives(progress(3)))
  hosts.arrives(progress(7))
  await hosts.shows(running, () => hosts.arrives(progress(58)))
  await hosts.shows(running, () => {
    const { arrival } = hosts.destination.host.store.vms.get(WEB) ?? {}
    assert.ok(arrival)
    const { progress: _past, ...rest } = arrival
    hosts.destination.host.store.arrivals.set(WEB, { ...rest, round: 1 }, 1)
  })
  await hosts.shows(running, () => hosts.departs({ stage: 'handing_over' }))
  await hosts.shows(running, () => hosts.departs({ stage: 'handed_over' }))
  await hosts.shows(running, () => hosts.arrives(progress(20, 2)))
  await hosts.shows(running, () => hosts.arrives({ stage: 'pulled', round: 2 }))
  await hosts.shows(running, () => hosts.release())
  await eventually(() => running.printed().includes('web-1: released; pending at 127.0.0.1\n'))
  assert.equal(hosts.source.host.store.vms.get(WEB)?.deleting, false)
  await hosts.arrive()
  await hosts.removed(hosts.source)
  const { status, out } = await running.result
  assert.equal(out, 'web-1: moved to host-2 (127.0.0.1), running\n')
  assert.equal(status, 0)
  const lines = running.printed().trimEnd().split('\n')
  for (const [index, line] of [
    'web-1: waiting for the source',
    'web-1: copying round 1, 0 %',
    'web-1: copying round 1, 50 %',
    'web-1: round 1 is copied',
    'web-1: the guest is down for the handover and is being saved',
    'web-1: the guest is down for the handover; copying what is left',
    'web-1: the guest is down for the handover; copying round 2, 20 %',
    'web-1: complete at 127.0.0.1, waiting for the release',
  ].entries())
    assert.equal(lines[index], line, running.printed())
  assert.equal(hosts.source.host.store.vms.get(WEB), undefined)
})

test('on a terminal a bar moves, with sizes and a rate', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  let nowMs = 0
  const shell = { monotonicMs: () => nowMs }
  const options = { terminalColumns: 140, shell }
  const running = await hosts.begin('', options)
  const copied = (mib: number) => ({ progress: { round: 1, copiedBytes: mib * MIB, totalBytes: 200 * MIB } })
  await hosts.shows(running, () => hosts.arrives(copied(0)))
  nowMs = 4000
  await hosts.shows(running, () => hosts.arrives(copied(100)))
  assert.match(
    running.printed(),
    /copying round 1 {2}\[#{12}-{12}\] {2}50 % {2}100 MiB of 200 MiB {2}25\.0 MiB\/s/,
  )
  await hosts.arrive()
  await hosts.removed(hosts.source)
  assert.equal((await running.result).status, 0)
})

test('for a program each change is a line of JSON', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const lines: object[] = []
  const write = (text: string): void =>
    void lines.push(
      ...text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
    )
  const { result } = await hosts.begin('--json --keep', {
    shell: { stdout: { write, isTty: false, columns: 0 } },
  })
  hosts.arrives({ progress: { round: 1, copiedBytes: 3 * MIB, totalBytes: 10 * MIB } })
  await eventually(() => lines.some((line) => 'round' in line))
  await hosts.arrive()
  const { status, err } = await result
  assert.equal(status, 0)
  assert.equal(err, '')
  const copying = lines.find((line) => 'round' in line)
  assert.deepEqual(copying, {
    ...{ vm: 'web-1', source_stage: 'offered', stage: 'pulling', state: 'pending' },
    ...{ round: 1, copied_mib: 3, total_mib: 10 },
  })
  assert.deepEqual(lines.at(-1), {
    ...{ vm: 'web-1', stage: 'moved', node: 'host-2', state: 'running', kept: true },
  })
})

test('the same command again continues the same migration, at any moment', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const first = await hosts.run('--timeout 0')
  assert.equal(first.status, 3)
  assert.match(first.err, /web-1 is not at 127\.0\.0\.1 after 0 s; waiting for the source\n/)
  assert.match(first.err, /web-1 is at 127\.0\.0\.1 \(running\), and is still offered to 127\.0\.0\.1\n/)
  const { id } = hosts.departure
  const generations = () => hosts.source.host.store.vms.get(WEB)?.generations.desired
  const generation = generations()
  hosts.departs({ stage: 'handed_over', lastRound: 2 })
  const second = await hosts.run('--timeout 0')
  assert.match(second.err, /web-1 is down for the handover at 127\.0\.0\.1, which takes it back/)
  hosts.departs({ stage: 'released' })
  const third = await hosts.run('--timeout 0')
  assert.match(third.err, /web-1 belongs to 127\.0\.0\.1 now; .* never runs it again/)
  for (const [{ err }, mayStay] of [
    [second, true],
    [third, false],
  ] as const)
    assert.deepEqual([/run the command again to follow/.test(err), /--cancel/.test(err)], [true, mayStay])
  assert.equal(hosts.departure.id, id)
  assert.equal(generations(), generation)
  const last = hosts.start()
  await hosts.arrive()
  await hosts.removed(hosts.source)
  assert.equal((await last.result).status, 0)
  const after = await hosts.run()
  assert.equal(after.out, 'web-1: moved to host-2 (127.0.0.1), running\n')
  assert.equal(after.status, 0)
})

test('another deadline is stored, and nothing else of the offer', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  await hosts.run('--timeout 0 --expires 1h')
  const offerOf = () => hosts.source.host.store.vms.get(WEB)?.desired.migration
  const first = offerOf()
  assert.ok(first && Math.abs(first.expiresAtMs - hosts.nowMs() - 3_600_000) < 60_000)
  await hosts.run('--timeout 0 --expires 2h')
  const second = offerOf()
  assert.ok(second && second.expiresAtMs - first.expiresAtMs > 3_500_000)
  assert.equal(second.id, first.id)
  assert.match((await hosts.run('--cold')).err, /web-1 is offered already, and not cold/)
})

test('if the destination refuses, the offer of this call is withdrawn, and the guest stays', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  hosts.destination.host.host.sourceHosts.isCut = true
  const { status, err } = await hosts.run()
  assert.equal(status, 1)
  assert.match(err, /vmhostctl: .*asking the source https:\/\/10\.0\.0\.1:9001/)
  assert.match(err, /\n {2}web-1 is at 127\.0\.0\.1 \(running\), as if no move had been requested\n/)
  assert.match(err, /code source_unreachable/)
  assert.equal(hosts.departure.stage, 'withdrawn')
  hosts.destination.host.host.sourceHosts.isCut = false
  const { id } = hosts.departure
  assert.equal((await hosts.run('--timeout 0')).status, 3)
  assert.notEqual(hosts.departure.id, id)
  // Another call did not make this offer.
  await hosts.remove(hosts.destination)
  hosts.destination.host.host.sourceHosts.isCut = true
  const again = await hosts.run()
  assert.match(again.err, /web-1 is at 127\.0\.0\.1 \(running\), and is still offered/)
  assert.equal(hosts.departure.stage, 'offered')
})

test('a destination that is away is named, and nothing is offered', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  await hosts.destination.host.close(0)
  const { status, err } = await hosts.run()
  assert.equal(status, 4)
  assert.match(err, new RegExp(`nothing listens at 127\\.0\\.0\\.1:${hosts.destination.host.port}`))
  assert.ok(err.includes(hosts.destination.profile), err)
  assert.match(err, /web-1 is at 127\.0\.0\.1 \(running\), as if no move had been requested/)
  assert.equal(hosts.source.host.store.vms.get(WEB)?.departure, undefined)
})

test('a migration that ended without the guest says so; the next one removes what it left', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { result } = await hosts.begin()
  hosts.departs({ stage: 'withdrawn', because: 'expired' })
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /web-1 stays at 127\.0\.0\.1: the migration has ended \(expired\)/)
  assert.match(err, /web-1 is at 127\.0\.0\.1 \(running\), as if no move had been requested/)
  const { id } = hosts.departure
  hosts.arrives({ stage: 'refused', because: 'withdrawn' })
  const again = hosts.start('--timeout 1s')
  await hosts.removed(hosts.destination)
  await again.result
  assert.match(again.printed(), /web-1: removing what an earlier attempt has left at 127\.0\.0\.1/)
  assert.notEqual(hosts.departure.id, id)
  assert.equal(hosts.destination.host.store.vms.get(WEB)?.arrival?.migrationId, hosts.departure.id)
})

test('a destination that hears first of a withdrawal does not hide its reason', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { result } = await hosts.begin()
  const { vms } = hosts.source.host.store
  const read = t.mock.method(vms, 'revisionOf', (id: VmId) => {
    read.mock.restore()
    // The watch of the source has not shown this yet.
    hosts.departs({ stage: 'withdrawn', because: 'expired' })
    return vms.revisionOf(id)
  })
  hosts.arrives({ stage: 'refused', because: 'withdrawn' })
  assert.match((await result).err, /web-1 stays at 127\.0\.0\.1: the migration has ended \(expired\)\n/)
})

test('another migration begins only when the destination has heard of the end of the last one', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  assert.equal((await hosts.source.run('vm set web-1 --protected yes')).status, 0)
  const first = await hosts.begin()
  hosts.arrives({ stage: 'pulled', round: 2 })
  hosts.departs({ stage: 'withdrawn', because: 'handover_expired' })
  assert.equal((await first.result).status, 1)
  const { id } = hosts.departure
  const again = hosts.start('--timeout 1s')
  await eventually(() => again.printed().includes('has not heard yet that the last migration has ended'))
  assert.equal(hosts.departure.id, id)
  hosts.arrives({ stage: 'refused', because: 'withdrawn' })
  await hosts.removed(hosts.destination)
  await again.result
  assert.notEqual(hosts.departure.id, id)
  assert.equal(hosts.destination.host.store.vms.get(WEB)?.arrival?.migrationId, hosts.departure.id)
})

test('a change of a VM that is offered is refused, with the commands that help', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  await hosts.run('--timeout 0')
  const { status, err } = await hosts.source.run('vm pause web-1')
  assert.equal(status, 1)
  assert.match(err, /\n {2}vmhostctl vm migrate web-1 --cancel keeps it here\n/)
  const there = await hosts.destination.run('vm pause web-1')
  assert.match(there.err, /vmhostctl vm get web-1 shows how far it is, and from where it comes\n/)
  hosts.destination.host.host.monitor.processor = { vendor: 'OtherVendor', features: [] }
  await hosts.source.run('vm migrate web-1 --cancel')
  hosts.arrives({ stage: 'refused', because: 'withdrawn' })
  const again = hosts.start()
  await hosts.removed(hosts.destination)
  assert.match((await again.result).err, /vmhostctl vm migrate web-1 --cold moves it without its memory\n/)
})

test('a record at the source that is not the one that was left there is not deleted', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const { result } = await hosts.begin()
  hosts.arrives({ stage: 'released', round: 2 })
  settle(hosts.destination, WEB)
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /web-1 at 127\.0\.0\.1 is not the record that this migration has left there\n/)
  assert.equal(hosts.source.host.store.vms.get(WEB)?.deleting, false)
})

test('an offer to another node is not touched; --cancel withdraws it', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  assert.match((await hosts.source.run('vm migrate web-1 --cancel')).out, /there is no offer to withdraw/)
  assert.equal((await hosts.run('--timeout 0')).status, 3)
  hosts.departs({ node: 'host-7' as NodeName })
  const { status, err } = await hosts.run('--node host-9')
  assert.equal(status, 1)
  assert.match(err, /web-1 is offered already, to host-2\n/)
  assert.match(err, /to withdraw that offer: vmhostctl vm migrate web-1 --cancel/)
  const { out } = await hosts.source.run('vm migrate web-1 --cancel')
  assert.equal(out, 'web-1: stays here; its offer is withdrawn\n')
  assert.equal(hosts.departure.stage, 'withdrawn')
  const again = await hosts.source.run('vm migrate web-1 --cancel')
  assert.equal(again.out, 'web-1: there is no offer to withdraw\n')
})

test('a protected VM keeps its record at the source, with what to do about it', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  assert.equal((await hosts.source.run('vm set web-1 --protected yes')).status, 0)
  const { result } = await hosts.begin()
  await hosts.arrive()
  const { status, out, err } = await result
  assert.equal(status, 0)
  assert.equal(out, 'web-1: moved to host-2 (127.0.0.1), running; its record is still at 127.0.0.1\n')
  assert.match(err, /is protected, so its record stays .*vmhostctl vm set web-1 --protected no/)
})

test('trouble of a host is shown with its name, and waited out', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const running = await hosts.begin()
  const { store } = hosts.destination.host
  const fault: Fault = {
    code: 'source_unreachable',
    step: 'arrival.pull',
    message: 'asking the source',
    generation: 1 as Generation,
    sinceMs: 1,
    attempt: 2,
    nextAttemptAtMs: Date.now() + 30_000,
  }
  await hosts.shows(running, () => {
    store.vms.recordProgress(WEB, { observed: { state: 'failed', sinceMs: 1, fault }, nowMs: 1 })
  })
  assert.match(
    running.printed(),
    /web-1: at 127\.0\.0\.1: .*asking the source \(source_unreachable, attempt 2/,
  )
  const strict = await hosts.run('--fail-on-error')
  assert.equal(strict.status, 1)
  assert.match(strict.err, /the hosts keep trying; run the command again to follow/)
  await hosts.arrive()
  await hosts.removed(hosts.source)
  assert.equal((await running.result).status, 0)
})

test('with --fail-on-error only an error since the request ends a move', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const fault = (step: string, attempt: number): Fault => ({
    code: 'source_unreachable',
    step,
    message: `asking the source ${attempt}`,
    generation: 1 as Generation,
    sinceMs: 1,
    attempt,
    nextAttemptAtMs: Date.now() + 30_000,
  })
  const fails = ({ host: { store } }: CtlStage, seen: Fault): void => {
    store.vms.recordProgress(WEB, { observed: { state: 'running', sinceMs: 1, fault: seen }, nowMs: 1 })
  }
  fails(hosts.source, fault('storage.ensure-limits', 1))
  const first = await hosts.begin('--fail-on-error')
  fails(hosts.destination, fault('arrival.pull', 2))
  assert.match((await first.result).err, /web-1: arrival\.pull: asking the source 2/)
  const url = 'https://10.0.0.2:9001'
  hosts.destination.host.host.sourceHosts.peers.set(url, hosts.source.host.departures)
  const second = await hosts.begin(`--fail-on-error --source-url ${url}`)
  fails(hosts.destination, fault('arrival.pull', 3))
  assert.match((await second.result).err, /web-1: arrival\.pull: asking the source 3/)
  const third = await hosts.run(`--fail-on-error --source-url ${url}`)
  assert.match(third.err, /web-1: arrival\.pull: asking the source 3/)
})

test('what cannot be meant is refused before a host is asked', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const local = await hosts.source.run(`vm migrate web-1 --to ${hosts.destination.profile}`)
  assert.equal(local.status, 2)
  assert.match(local.err, /the address 127\.0\.0\.1, at which no other host finds it/)
  assert.match((await hosts.source.run('vm migrate web-1')).err, /it needs --to/)
  for (const url of ['http://10.0.0.1:9001', 'https://10.0.0.1/v1', 'https://a@10.0.0.1', '10.0.0.1'])
    assert.match((await hosts.run(`--source-url ${url}`)).err, /is not the address of a host/, url)
  assert.equal(hosts.source.host.store.vms.get(WEB)?.departure, undefined)
  assert.match((await ctl(['vm', 'migrate', '--help'])).out, /is down for .*safe at any time/s)
})

test('a move to the host that has the VM is refused before anything is offered', async (t) => {
  const { source } = await TwoHosts.start(t, pki)
  const url = '--source-url https://10.0.0.1:9001'
  const { status, err } = await source.run(`vm migrate web-1 --to ${source.profile} ${url}`)
  assert.equal(status, 2)
  assert.match(err, /--to names 127\.0\.0\.1, which is the host that web-1 is to leave \(host-1\)\n/)
  assert.match(err, /\n {2}give the profile of another host\n/)
  assert.doesNotMatch(err, /delete it/)
  assert.equal(source.host.store.vms.get(WEB)?.departure, undefined)
})

test('a move whose record at the source was deleted too early is followed to its end', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  const first = await hosts.begin()
  hosts.arrives({ stage: 'pulled', round: 2 })
  hosts.departs({ stage: 'released', lastRound: 2 })
  await hosts.remove(hosts.source)
  assert.equal((await hosts.run('--timeout 0')).status, 3)
  const again = hosts.start()
  hosts.arrives({ stage: 'released' })
  settle(hosts.destination, WEB)
  for (const { result } of [first, again]) {
    const { status, out } = await result
    assert.deepEqual([status, out], [0, 'web-1: moved to host-2 (127.0.0.1), running\n'])
  }
})

test('a VM that neither host has is not found', async (t) => {
  const hosts = await TwoHosts.start(t, pki)
  await hosts.remove(hosts.source)
  const { status, err } = await hosts.run()
  assert.equal(status, 1)
  assert.match(err, /there is no VM web-1 at 127\.0\.0\.1\n.*\n? {2}127\.0\.0\.1 has none either/s)
})
