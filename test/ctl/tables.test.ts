import assert from 'node:assert/strict'
import { X509Certificate } from 'node:crypto'
import { before, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { Course, createVm, start, startBody } from '../daemon/support/snapshots.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create, fail, settle } from './support/vms.ts'
import { HostFault } from '../../src/core/errors.ts'
import type { Generation, VmId } from '../../src/core/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('on a terminal the table has colours and ends at its edge; NO_COLOR removes the colours', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv6 2001:db8::10')
  settle(stage, 'web-1')
  const coloured = await stage.run('vm ls', { terminalColumns: 48 })
  assert.ok(coloured.out.includes('\u001B[32mrunning'))
  const plain = stripVTControlCharacters(coloured.out)
  for (const line of plain.trimEnd().split('\n')) assert.ok(line.length <= 48, line)
  const environment = { NO_COLOR: '1' }
  const { out } = await stage.run('vm ls', { terminalColumns: 48, shell: { environment } })
  assert.equal(out, plain)
})

test('80 columns hide no error: it stands below its VM, with the cause first and without a digest', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1', '--ipv4 192.0.2.10 --ipv6 2001:db8::10')
  await create(stage, 'web-2')
  settle(stage, 'web-2')
  const message = `fetching image ${SHA}: asking images.example.net: the certificate of the server has expired`
  const fault = {
    code: 'image_unavailable',
    step: 'image.ensure-fetched',
    message,
    ...{ generation: 1 as Generation, sinceMs: 1, attempt: 1, nextAttemptAtMs: 2 },
  } as const
  stage.host.store.vms.recordProgress('web-1' as VmId, {
    observed: { state: 'failed', sinceMs: 1, fault },
    nowMs: 1,
  })
  for (const command of ['vm ls', 'sync']) {
    const { out } = await stage.run(command, { terminalColumns: 80 })
    const lines = stripVTControlCharacters(out).split('\n')
    for (const line of lines) assert.ok(line.length <= 80, line)
    const at = lines.findIndex((line) => line.startsWith('web-1'))
    assert.deepEqual(lines.slice(at + 1, at + 4), [
      '  the certificate of the server has expired (fetching image aaaaaaaaaaaa…:',
      '  asking images.example.net), in image.ensure-fetched',
      ...[command === 'sync' ? '' : (lines.find((line) => line.startsWith('web-2')) ?? 'web-2')],
    ])
  }
  stage.host.figures.poolId = '0b8f6a1e-3c52-4d0e-9f5a-7a1d2c3b4e5f'
  const capacity = (await stage.run('sync', { terminalColumns: 80 })).out
  assert.match(stripVTControlCharacters(capacity), /ALLOCATABLE {2}LEFT/)
})

test('what a VM waits for stands where an error would, and behind one', async (t) => {
  const stage = await startCtlStage(t, pki)
  const partialFaults = [
    { code: 'storage_full', step: 'storage.ensure-disk', message: 'growing the disk: no room' },
  ] as const
  const memoryQueue = { place: 2, missingMib: 512, sinceMs: 1 }
  for (const [id, more] of [
    ['web-1', { waitingFor: 'the end of maintenance' }],
    ['web-2', { waitingFor: 'memory', memoryQueue }],
    ['web-3', { waitingFor: 'memory', memoryQueue, partialFaults }],
  ] as const) {
    await create(stage, id)
    const observed = { state: 'sleeping', sinceMs: 1, ...more } as const
    stage.host.store.vms.recordProgress(id as VmId, { observed, nowMs: 1 })
  }
  const { out } = await stage.run('vm ls')
  const lines = out.trimEnd().split('\n')
  assert.match(lines[0] ?? '', / {2}WHY$/)
  assert.deepEqual(
    lines.slice(1).map((line) => line.split(/ {2,}/).at(-1)),
    [
      'waits for the end of maintenance',
      'waits for memory (place 2, 512 MiB missing)',
      'no room (growing the disk), in storage.ensure-disk; waits for memory (place 2, 512 MiB missing)',
    ],
  )
  const onTerminal = stripVTControlCharacters((await stage.run('vm ls', { terminalColumns: 80 })).out)
  assert.match(onTerminal, /^web-1 .*\n {2}waits for the end of maintenance\nweb-2 /m)
})

test('a host that cannot be inspected is shown with the reason and its VMs, without figures', async (t) => {
  const stage = await startCtlStage(t, pki)
  await create(stage, 'web-1')
  stage.host.figures.setInSight(false)
  const { status, out, err } = await stage.run('sync')
  assert.equal(status, 1)
  assert.match(
    out,
    /^ {2}vmhostd {2}1\.2\.3\n {2}VMs {6}1, 0 as desired\n\nNOT AS DESIRED .*\nweb-1 +pending +0 of 1 .*\n$/,
  )
  assert.match(err, /measuring the storage pool\n.*is the pool there and mounted\?/)
  assert.match(err, /code storage_inspection_failed/)
  stage.host.figures.setInSight(true)
  stage.host.host.consoles.failNext('stored', new HostFault('systemd_unavailable', 'asking systemd'))
  assert.match((await stage.run('sync')).err, /on that host: systemctl status dbus/)
  stage.host.figures.setInSight(false)
  const asJson = await stage.run('sync --json')
  assert.deepEqual([asJson.status, asJson.out], [1, ''])
})

test('the count of VMs as desired leaves out those that are listed as not so', async (t) => {
  const stage = await startCtlStage(t, pki)
  for (const id of ['web-1', 'web-2']) {
    await create(stage, id)
    settle(stage, id)
  }
  fail(stage, 'web-2')
  const { out } = await stage.run('sync')
  assert.match(out, /^ {2}VMs +2, 1 as desired$/m)
  assert.match(out, /\nNOT AS DESIRED .*\nweb-2 +failed +1 .*no room.*\n$/)
})

test('80 columns hide no error of a snapshot either', async (t) => {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  await start(stage.host, startBody({ part_urls: [] }))
  new Course(stage.host).fail({ resumable: true })
  for (const command of ['snapshot ls', 'sync']) {
    const { out } = await stage.run(command, { terminalColumns: 80 })
    const lines = stripVTControlCharacters(out).split('\n')
    const at = lines.findIndex((line) => line.startsWith('nightly-1'))
    assert.equal(lines[at + 1], '  the store answered 503 SlowDown (sending part 1)', command)
  }
})

test('the certificate that expires first is shown with its day, and in red if that is soon', async (t) => {
  const stage = await startCtlStage(t, pki)
  const dayMs = 86_400_000
  const lineAt = async (nowMs: number): Promise<string> => {
    stage.host.clock.set(nowMs - stage.host.clock.now())
    const { out } = await stage.run('sync', { terminalColumns: 80 })
    return out.split('\n').find((line) => line.includes('the certificate of')) ?? ''
  }
  const endsMs = Math.min(
    ...[pki.server, pki.controller].map(({ certificate }) =>
      new X509Certificate(certificate).validToDate.getTime(),
    ),
  )
  const day = new Date(endsMs).toISOString().slice(0, 10)
  const far = await lineAt(endsMs - 100 * dayMs)
  assert.match(stripVTControlCharacters(far), new RegExp(`TLS until  ${day}, the certificate of the `))
  assert.ok(!far.includes('\u001B[31m'), far)
  const near = await lineAt(endsMs - dayMs)
  assert.match(stripVTControlCharacters(near), /TLS until/)
  assert.ok(near.includes('\u001B[31m'), near)
  assert.match(stripVTControlCharacters(await lineAt(endsMs + dayMs)), /TLS ended/)
})
