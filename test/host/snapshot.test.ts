/** Snapshots by the installed daemon into a real object store, and VMs made from the resulting objects. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { test } from 'node:test'
import { call, getVm, remove, setPower, settled } from '../../lab/inside/controller.ts'
import { exchange } from '../../lab/inside/first-packets.ts'
import { servedPage } from '../../lab/inside/guest-page.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, makeSleeper, sleeper } from '../../lab/inside/sleepers.ts'
import {
  completed,
  deleteSnapshot,
  downloadedSha256,
  findSnapshot,
  sha256Of,
  snapshotIs,
  completeSnapshot,
  startSnapshot,
} from '../../lab/inside/snapshots.ts'
import { typeInto } from '../../lab/inside/type-into.ts'
import { diskOf, makeRunning, makeStopped, snapshotStage, staged, stagingEmpty } from './snapshot-stage.ts'
import { story } from './story.ts'

const stage = snapshotStage()
const COPY = '/var/lib/vmhostd/pool/downloaded.raw'

/** Deletes the snapshots of a test: each is on record and staged until then, and its object stays after that. */
async function deleteAll(objects: Readonly<Record<string, string>>): Promise<void> {
  assert.equal(staged().length, Object.keys(objects).length)
  for (const [id, key] of Object.entries(objects)) {
    assert.equal((await findSnapshot(id))?.status, 'completed')
    await deleteSnapshot(id)
    assert.equal((await call('GET', `/v1/snapshots/${id}`)).status, 404)
    assert.equal((await call('DELETE', `/v1/snapshots/${id}`)).status, 204)
    assert.ok(((await stage.bucket.sizeOf(key)) ?? 0) > 0)
  }
  await stagingEmpty()
}

/** Digest of a file, as the guest reports it. */
const guestSha256 = async (id: string, file: string): Promise<string | undefined> =>
  /\b[0-9a-f]{64}\b/.exec(await typeInto(id, `sha256sum ${file}`))?.[0]

story('a guest is captured while it runs, with its agent and without', {
  'a running guest is captured with its written data, continues, and boots elsewhere from the object':
    async () => {
      await makeRunning('source', '192.0.2.71')
      const { bootId } = await servedPage('192.0.2.71')
      // Not synced: a freeze writes the file system out first.
      await typeInto('source', 'dd if=/dev/urandom of=/root/known bs=1M count=12 2>/dev/null')
      const written = await guestSha256('source', '/root/known')
      assert.ok(written !== undefined)
      const upload = await stage.begin('source.img.zst')
      await startSnapshot('round-trip', 'source', upload)
      const snapshot = await completed('round-trip')
      assert.equal(snapshot.consistency, 'file_system')
      assert.equal(snapshot.size_mib, 128)
      assert.ok((snapshot.stored_size_mib ?? 0) < 64)
      assert.ok((snapshot.paused_ms ?? 0) > 0, 'the answer does not say for how long the guest was paused')
      assert.equal((await servedPage('192.0.2.71')).bootId, bootId, 'the guest was booted again')
      await typeInto('source', 'echo later >/root/known; sync')

      const sha256 = await downloadedSha256(upload.getUrl, COPY)
      assert.equal(sha256, snapshot.sha256)
      await sh('e2fsck', '-f', '-n', COPY)
      rmSync(COPY)

      const rootfs = { url: upload.getUrl, sha256 }
      await makeRunning('target', '192.0.2.72', { image: { rootfs } })
      assert.equal(await guestSha256('target', '/root/known'), written)
      assert.deepEqual(
        [(await findSnapshot('round-trip'))?.staged_mib, staged().length],
        [snapshot.stored_size_mib, 1],
        'it is still staged',
      )
      await remove('target')
    },
  'a guest whose agent is gone is captured as after a loss of power, and is reported so': async () => {
    await typeInto('source', 'killall demo-agent; while pidof demo-agent; do sleep 0.1; done')
    const upload = await stage.begin('crash.img.zst')
    await startSnapshot('no-agent', 'source', upload)
    const snapshot = await completed('no-agent')
    assert.equal(snapshot.consistency, 'crash')
    assert.equal(await downloadedSha256(upload.getUrl, COPY), snapshot.sha256)
    rmSync(COPY)
    await remove('source')
    await deleteAll({ 'round-trip': 'source.img.zst', 'no-agent': 'crash.img.zst' })
  },
})

story('a VM that is stopped is captured, and its upload waits for its completion', {
  'a stopped VM is captured to the last bit, and stays stopped': async () => {
    await makeStopped('still', 256, 40)
    const upload = await stage.begin('still.img.zst')
    await startSnapshot('of-stopped', 'still', upload)
    const snapshot = await completed('of-stopped')
    const sha256 = await sha256Of(diskOf('still'))
    assert.equal(snapshot.sha256, sha256)
    assert.equal(snapshot.paused_ms, 0)
    assert.equal(await downloadedSha256(upload.getUrl, COPY), sha256)
    rmSync(COPY)
    assert.equal((await getVm('still')).observed.state, 'stopped')
  },
  'an upload without a completion URL waits for it, and each further completion is answered the same':
    async () => {
      const upload = await stage.begin('later.img.zst')
      await startSnapshot('later', 'still', upload, { complete: false })
      const waiting = await snapshotIs('later', 'waits for its completion', ({ lacking_urls }) => {
        return lacking_urls?.complete === true
      })
      assert.equal(waiting.needs_urls, true)
      assert.equal(waiting.status, 'uploading')
      assert.equal(await stage.bucket.sizeOf('later.img.zst'), undefined)
      assert.equal((await stage.bucket.listParts(upload)).length, waiting.parts.sent)
      await Promise.all([completeSnapshot('later', upload), completeSnapshot('later', upload)])
      await completed('later')
      assert.equal((await completeSnapshot('later', upload)).status, 'completed')
      assert.ok(((await stage.bucket.sizeOf('later.img.zst')) ?? 0) > 0)
      await remove('still')
      await deleteAll({ 'of-stopped': 'still.img.zst', later: 'later.img.zst' })
    },
})

test('a VM that sleeps is captured asleep, and wakes with its memory', async () => {
  const one = sleeper('snapshot-sleeper', 73)
  await makeSleeper(one, { sleepAfterIdleSeconds: 2 })
  const { bootId } = await servedPage(one.ipv4)
  const before = await asleep(one.id)
  const upload = await stage.begin('asleep.img.zst')
  await startSnapshot('of-asleep', one.id, upload)
  const snapshot = await completed('of-asleep')
  const after = await getVm(one.id)
  assert.equal(after.observed.state, 'sleeping')
  assert.deepEqual(after.observed.last_wake, before.observed.last_wake)
  assert.equal(snapshot.paused_ms, 0)
  assert.equal(snapshot.sha256, await sha256Of(diskOf(one.id)))
  await exchange(one.ipv4)
  assert.equal((await servedPage(one.ipv4)).bootId, bootId, 'the guest was booted again')
  await remove(one.id)
  await deleteAll({ 'of-asleep': 'asleep.img.zst' })
})

test('a paused guest is captured, and stays paused', async () => {
  await makeRunning('held', '192.0.2.74')
  await setPower('held', 'paused')
  await settled('held', 'paused')
  const upload = await stage.begin('held.img.zst')
  await startSnapshot('of-paused', 'held', upload)
  const snapshot = await completed('of-paused')
  assert.equal(snapshot.sha256, await sha256Of(diskOf('held')))
  assert.equal((await getVm('held')).observed.state, 'paused')
  await remove('held')
  await deleteAll({ 'of-paused': 'held.img.zst' })
})
