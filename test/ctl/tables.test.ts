import assert from 'node:assert/strict'
import { before, test } from 'node:test'
import { stripVTControlCharacters } from 'node:util'
import { makePki, SHA } from '../daemon/support/controller-host.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import { create, settle } from './support/vms.ts'
import type { Generation, VmId } from '../../src/core/vm/ids.ts'
import type { Pki } from '../daemon/support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

test('on a terminal the table has colours and ends at its edge; NO_COLOR takes the colours', async (t) => {
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
  const capacity = (await stage.run('sync', { terminalColumns: 80 })).out
  assert.match(stripVTControlCharacters(capacity), /ALLOCATABLE {2}LEFT/)
})

test('of a host that cannot be inspected no figure is shown, but the reason and how its VMs stand', async (t) => {
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
  const asJson = await stage.run('sync --json')
  assert.deepEqual([asJson.status, asJson.out], [1, ''])
})
