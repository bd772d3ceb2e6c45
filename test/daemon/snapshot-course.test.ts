import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { before, test } from 'node:test'
import { zstdDecompressSync } from 'node:zlib'
import { silentLog } from '../../src/log/log.ts'
import { Snapshots } from '../../src/owners/snapshots/snapshots.ts'
import { createBody, makePki, startControllerHost } from './support/controller-host.ts'
import { complete, get, handOver, MIB, remove, start, startBody } from './support/snapshots.ts'
import type { TestContext } from 'node:test'
import type { CommandContext } from '../../src/commands/context.ts'
import type { VmId } from '../../src/core/ids.ts'
import type { Answer, ControllerHost, Json, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** A host on which snapshots are really taken, of a stopped VM whose disk fills three parts. */
async function working(t: TestContext) {
  const host = await startControllerHost(t, pki)
  const body = createBody({ network: undefined, power: 'stopped' })
  await host.call({ method: 'PUT', path: '/v1/vms/web-1', body })
  host.store.vms.recordProgress('web-1' as VmId, {
    observed: { state: 'stopped', sinceMs: 1, disk: { sizeMib: 20 } },
    nowMs: 1,
  })
  const content = randomBytes(12 * MIB)
  host.host.staging.disks.set('web-1' as VmId, { content, sizeBytes: 20 * MIB })
  const snapshots = new Snapshots({
    store: host.store,
    host: host.host,
    betweenPasses: (_id, task) => task(new AbortController().signal, new AbortController().signal),
    log: silentLog,
    uploadsMax: 2,
    stagingQuotaMib: () => 64,
    stagingMaxAgeHours: 24,
  })
  const pokeSnapshot: CommandContext['pokeSnapshot'] = (id, request) =>
    queueMicrotask(() => snapshots.poke(id, request))
  Object.assign(host.context, { pokeSnapshot })
  snapshots.start()
  t.after(() => snapshots.stop())
  const image = Buffer.alloc(20 * MIB)
  image.set(content)
  return { host, upload: host.host.objectStore.openUpload(), image }
}

/** Waits by long polls alone until the snapshot passes the check, and returns it. */
async function once(host: ControllerHost, isSo: (snapshot: Json) => boolean): Promise<Json> {
  let answer: Answer = await get(host)
  for (let looks = 0; !isSo(answer.json); looks += 1) {
    assert.ok(looks < 100 && answer.status === 200, answer.text)
    const headers = { 'if-none-match': answer.headers.etag ?? '', prefer: 'wait=10' }
    answer = await host.call({ path: '/v1/snapshots/nightly-1', headers })
  }
  return answer.json
}

test('a controller takes a snapshot by the API alone: too few URLs, then expired ones, then completion', async (t) => {
  const { host, upload, image } = await working(t)
  await start(host, startBody({ part_size_mib: 5, part_urls: upload.partUrls(1) }))
  const lacking = await once(host, ({ parts, sha256 }) => parts.sent === 1 && sha256 !== undefined)
  assert.deepEqual(lacking.lacking_urls, { parts: [2, 3], complete: false })

  const expired = upload.partUrls(2, 2)
  upload.expireUrls()
  await handOver(host, { first_part: 2, part_urls: expired })
  const refused = await once(host, ({ fault, needs_urls: needs }) => needs && fault !== undefined)
  assert.equal(refused.fault.code, 'upload_urls_expired')
  assert.equal(refused.parts.sent, 1)

  await handOver(host, { first_part: 2, part_urls: upload.partUrls(2, 2) })
  const sent = await once(host, ({ progress }) => progress.phase === 'awaiting_completion')
  assert.deepEqual([sent.progress.percent, sent.error], [100, undefined])
  assert.equal(upload.state, 'open')

  await complete(host, { complete_url: upload.completeUrl, head_url: upload.headUrl })
  const {
    sha256,
    consistency,
    stored_size_mib: stored,
  } = await once(host, ({ status }) => status === 'completed')
  const object = upload.object ?? assert.fail('there is no object')
  assert.deepEqual([consistency, stored], ['crash', Math.ceil(object.length / MIB)])
  assert.equal(sha256, createHash('sha256').update(image).digest('hex'))
  assert.ok(zstdDecompressSync(object).equals(image))
  const parts = host.host.objectStore.requests.filter(({ outcome }) => outcome === 'stored')
  assert.equal(parts.length, 3)
  assert.deepEqual(new Set(parts.map(({ number }) => number)), new Set([1, 2, 3]))

  const staged = await get(host)
  assert.equal(staged.json.staged_mib, stored)
  const again = host.host.objectStore.openUpload()
  const urls = { part_urls: again.partUrls(3), complete_url: again.completeUrl }
  for (const answer of [
    await handOver(host, urls),
    await start(host, startBody({ part_size_mib: 5, ...urls })),
    await complete(host, { complete_url: again.completeUrl }),
  ]) {
    assert.equal(answer.status, 200)
    assert.deepEqual(answer.json, staged.json)
  }
  assert.equal(again.state, 'open')
  const { staging: sync } = (await host.call({ path: '/v1/sync' })).json
  assert.deepEqual([sync.packed_mib, sync.sent_mib, sync.clones_mib_max], [stored, stored, 0])
  assert.equal((await remove(host)).status, 204)
  const empty = async (): Promise<boolean> => (await host.host.staging.list()).length === 0
  for (let turns = 0; !(await empty()); turns += 1) assert.ok(turns < 1000, 'staging is not empty')
})
