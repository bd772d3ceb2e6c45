import assert from 'node:assert/strict'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { before, test } from 'node:test'
import { Rate } from '../../src/ctl/progress-bar.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { eventually } from '../daemon/support/eventually.ts'
import {
  completeUrl,
  Course,
  createVm,
  handOver,
  NIGHTLY,
  partUrls,
  remove,
  start,
  startBody,
} from '../daemon/support/snapshots.ts'
import { startCtlStage } from './support/ctl-stage.ts'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

async function stageWithSnapshot(t: TestContext, changes: object = { complete_url: completeUrl() }) {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  await start(stage.host, startBody(changes))
  return { stage, course: new Course(stage.host) }
}

/** Waits until the wait has shown the present state, and the daemon holds its next long poll. */
const polling = ({ host }: CtlStage): Promise<void> => eventually(() => host.snapshotWaits.size === 1)

/** Changes the snapshot in a way that a wait must notice by itself. */
async function seen(stage: CtlStage, act: () => unknown): Promise<void> {
  await polling(stage)
  await act()
  await polling(stage)
}

test('a wait prints each phase and every ten percent on a line of its own, and ends on completion', async (t) => {
  const { stage, course } = await stageWithSnapshot(t)
  const { result, printed } = stage.start('snapshot wait nightly-1')
  await seen(stage, () => course.capture(200))
  await seen(stage, () => course.pack(1))
  await seen(stage, () => course.sent(1))
  await seen(stage, () => course.pack(2))
  await seen(stage, () => course.packed())
  await seen(stage, () => course.sent(2))
  assert.equal(
    printed(),
    [
      'nightly-1: waits for its VM',
      'nightly-1: compressing and sending, 0 %',
      'nightly-1: compressing and sending, 50 %',
      'nightly-1: sending, 50 %',
      'nightly-1: sending, 100 %',
      '',
    ].join('\n'),
  )
  course.complete()
  const { status, out } = await result
  assert.equal(status, 0)
  assert.equal(out, `nightly-1: completed, 200 MiB stored as 128 MiB, sha256 ${'f'.repeat(64)}\n`)
})

test('on a terminal a bar moves, with percent, sizes and a rate', async (t) => {
  const { stage, course } = await stageWithSnapshot(t)
  let nowMs = 0
  const shell = { monotonicMs: () => nowMs }
  const { result, printed } = stage.start('snapshot wait nightly-1', { terminalColumns: 120, shell })
  await seen(stage, () => course.capture(200))
  assert.match(printed(), /\[-{24}\] {3}0 % {2}0 MiB of 200 MiB/)
  await seen(stage, () => course.pack(1))
  nowMs = 4000
  await seen(stage, () => course.sent(1))
  assert.match(printed(), /\[#{12}-{12}\] {2}50 % {2}100 MiB of 200 MiB {2}25\.0 MiB\/s/)
  course.complete()
  assert.equal((await result).status, 0)
})

test('a bar fits the terminal', async (t) => {
  const { stage, course } = await stageWithSnapshot(t)
  course.capture(200)
  const { result, printed } = stage.start('snapshot wait nightly-1', { terminalColumns: 40 })
  await polling(stage)
  // oxlint-disable-next-line no-control-regex -- cursor movements are not shown
  const lines = printed().split(/\r|\n|\u001B\[K/)
  assert.ok(lines.some((line) => line.includes('nightly-1')))
  for (const line of lines) assert.ok(line.length < 40, line)
  course.complete()
  await result
})

test('missing URLs are reported once with the next command, and again when more are missing', async (t) => {
  const { stage, course } = await stageWithSnapshot(t, { part_urls: [] })
  const { result, printed } = stage.start('snapshot wait nightly-1')
  await seen(stage, () => course.capture(200))
  await seen(stage, () => course.pack(1))
  await seen(stage, () => course.pack(2))
  const first =
    'it needs URLs for part 1; give fresh ones of the same upload: vmhostctl snapshot urls nightly-1 --upload FILE'
  assert.ok(printed().includes(`nightly-1: ${first}\n`), printed())
  await seen(stage, () => handOver(stage.host, { part_urls: partUrls(2) }))
  await seen(stage, () => stage.host.store.snapshots.dropUrls(NIGHTLY, 5000, 1))
  assert.ok(printed().includes('it needs URLs for parts 1-2'), printed())
  assert.equal(printed().match(/it needs URLs/g)?.length, 2)
  await seen(stage, () => course.sent(1))
  await seen(stage, () => course.sent(2))
  await seen(stage, () => course.packed())
  const end = 'it needs URLs to complete the upload; give a URL to complete it: '
  assert.ok(printed().includes(`${end}vmhostctl snapshot complete nightly-1 --upload FILE\n`), printed())
  course.complete()
  assert.equal((await result).status, 0)
})

test('transient trouble is reported and waited out; --fail-on-error ends there', async (t) => {
  const { stage, course } = await stageWithSnapshot(t)
  const trouble = {
    code: 'upload_busy',
    message: 'sending part 1: the store answered 503 SlowDown',
    sinceMs: 1,
    attempt: 2,
    nextAttemptAtMs: Date.now() + 30_000,
  } as const
  const { result, printed } = stage.start('snapshot wait nightly-1')
  await seen(stage, () => stage.host.store.snapshots.advance(NIGHTLY, { trouble, nowMs: 1 }))
  assert.match(printed(), /503 SlowDown \(upload_busy, attempt 2, next in \d+ s\)/)
  const strict = await stage.run('snapshot wait nightly-1 --fail-on-error')
  assert.equal(strict.status, 1)
  assert.match(strict.err, /vmhostctl: nightly-1: sending part 1.*\n {2}the daemon keeps trying/)
  course.complete()
  assert.equal((await result).status, 0)
})

test('a failed snapshot ends the wait with status 1, and says whether it can continue with fresh URLs', async (t) => {
  const { stage, course } = await stageWithSnapshot(t)
  const { result } = stage.start('snapshot wait nightly-1')
  await polling(stage)
  course.fail({ resumable: true })
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(
    err,
    /nightly-1 has failed: sending part 1.*\n.*vmhostctl snapshot urls nightly-1 --upload FILE/,
  )
  await handOver(stage.host, { part_urls: partUrls(2, { signature: 'two' }) })
  course.fail({ resumable: false })
  const over = await stage.run('snapshot wait nightly-1 --json')
  const { error } = JSON.parse(over.err)
  assert.deepEqual([over.status, error.code, error.snapshot], [1, 'upload_busy', 'nightly-1'])
  assert.match(error.advice[0], /vmhostctl snapshot rm nightly-1/)
})

test('a snapshot that met a full pool advises to free room before another one is taken', async (t) => {
  const { stage } = await stageWithSnapshot(t)
  const trouble = {
    code: 'storage_full',
    message: 'packing what is staged as nightly-1.op-1: ENOSPC: no space left on device',
    sinceMs: 1,
    attempt: 1,
  } as const
  stage.host.store.snapshots.advance(NIGHTLY, { stage: 'failed', trouble, nowMs: 1 })
  const { status, err } = await stage.run('snapshot wait nightly-1')
  assert.equal(status, 1)
  assert.match(
    err,
    /nightly-1 has failed: packing .*: ENOSPC: no space left on device\n {2}free room in the pool first: vmhostctl sync shows how much it has\n.*snapshot rm nightly-1/,
  )
})

test('a snapshot deleted meanwhile was not completed', async (t) => {
  const { stage } = await stageWithSnapshot(t)
  const { result } = stage.start('snapshot wait nightly-1')
  await polling(stage)
  await remove(stage.host)
  const { status, err } = await result
  assert.equal(status, 1)
  assert.match(err, /nightly-1 was deleted before it was completed/)
})

test('a wait that times out says how far the snapshot was, with status 3', async (t) => {
  const { stage, course } = await stageWithSnapshot(t, { part_urls: [] })
  course.capture(200)
  course.pack(1)
  const { status, err } = await stage.run('snapshot wait nightly-1 --timeout 0')
  assert.equal(status, 3)
  assert.match(
    err,
    /nightly-1 is not completed after 0 s; compressing and sending, 0 MiB of 200 MiB\n {2}it needs URLs for part 1;.*\n {2}the daemon continues: vmhostctl snapshot wait nightly-1 waits again/,
  )
})

test('create --wait waits for completion', async (t) => {
  const stage = await startCtlStage(t, pki)
  await createVm(stage.host)
  const directory = mkdtempSync(join(tmpdir(), 'upload-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const path = join(directory, 'urls.json')
  writeFileSync(path, JSON.stringify({ ...startBody().upload, complete_url: completeUrl() }))
  const { result } = stage.start(`snapshot create nightly-1 --vm web-1 --upload ${path} --wait --json`)
  await polling(stage)
  const course = new Course(stage.host)
  course.sendAll()
  course.complete()
  const { status, out, err } = await result
  assert.deepEqual([status, err, JSON.parse(out).status], [0, '', 'completed'])
})

test('a rate covers a recent period, and is absent while nothing moves', () => {
  const rate = new Rate()
  assert.equal(rate.at(0, 0), undefined)
  assert.equal(rate.at(1000, 0), undefined)
  assert.equal(rate.at(2000, 100), 50)
  assert.equal(rate.at(4000, 100), 25)
  assert.equal(rate.at(30_000, 360), 10)
  assert.equal(rate.at(60_000, 660), 10)
  assert.equal(new Rate().at(5, 5), undefined)
})
