/** Signed URLs that carry a canary, in snapshots and images that succeed or fail: the canary appears nowhere. */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readFileSync, statSync } from 'node:fs'
import { configure } from '../../lab/inside/configure.ts'
import { call, CURL_TLS, mutate, remove, settled } from '../../lab/inside/controller.ts'
import { guestRequest } from '../../lab/inside/guest.ts'
import { holdObjectStore, startObjectStore, stopObjectStore } from '../../lab/inside/object-store.ts'
import {
  completed,
  deleteSnapshot,
  handOver,
  snapshotIs,
  sha256Of,
  startSnapshot,
} from '../../lab/inside/snapshots.ts'
import { crashDaemon, mainPid, ready, sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { diskOf, expired, makeStopped, POOL, snapshotStage, stagingEmpty } from './snapshot-stage.ts'
import { story } from './story.ts'
import { atEnd } from '../contract/at-end.ts'
import type { Upload } from '../../lab/inside/presign.ts'

const CANARY = `canary${randomBytes(12).toString('hex')}`
/** Words in every URL of a multipart upload, and in no other URL. */
const UPLOAD_WORDS = ['uploadId=', 'partNumber=']
const STATE = '/var/lib/vmhostd'
const stage = snapshotStage({ canary: CANARY })
const VM = 'secretive'

/** Everything the daemon answered in this file. */
const answers: string[] = []

async function ask(method: string, path: string, body?: unknown): Promise<number> {
  const answer = await call(method, path, body)
  answers.push(JSON.stringify(answer.body))
  return answer.status
}

/** Reads everything that the API shows now. */
async function readAll(): Promise<void> {
  for (const path of ['/v1/snapshots', '/v1/sync', '/v1/images', '/v1/vms', `/v1/vms/${VM}`, '/metrics']) {
    // Metrics are not JSON.
    if (path === '/metrics')
      answers.push(await sh('sh', '-c', `curl --silent ${CURL_TLS} https://localhost:9000${path}`))
    else await ask('GET', path)
  }
}

/** Lists the files below a directory that contain the canary. */
const filesWith = async (directory: string, word = CANARY): Promise<readonly string[]> =>
  (await sh('sh', '-c', `grep -rlaF '${word}' ${directory} || true`))
    .split('\n')
    .filter((line) => line !== '')

/** Returns matching journal lines, without those of the object store itself, which belongs to a controller. */
const journalWith = async (needle: string): Promise<string> =>
  sh('sh', '-c', `journalctl --output=json | grep -F '${needle}' | grep -v object-store- | head -n 3`)

/**
 * Lists every name and value of the daemon and its processes that other processes can see and that contains the canary.
 */
async function processesWith(): Promise<readonly string[]> {
  const pids = (await sh('sh', '-c', 'cat /sys/fs/cgroup/system.slice/vmhostd.service/cgroup.procs')).split(
    '\n',
  )
  return pids
    .filter((pid) => pid !== '')
    .filter((pid) =>
      ['environ', 'cmdline'].some((name) => readFileSync(`/proc/${pid}/${name}`, 'latin1').includes(CANARY)),
    )
}

/** Checks that only the store contains the canary, and that only root can read it. */
async function assertKept(): Promise<void> {
  for (const file of await filesWith(STATE)) {
    assert.match(file, /^\/var\/lib\/vmhostd\/vmhostd\.db/, `${file} has it`)
    const { mode, uid } = statSync(file)
    assert.equal(mode & 0o077, 0, `${file} can be read by others`)
    assert.equal(uid, 0)
  }
  assert.deepEqual(await filesWith('/run/vmhostd'), [])
  assert.deepEqual(await processesWith(), [])
}

const start = (id: string, upload: Pick<Upload, 'partUrls' | 'completeUrl' | 'headUrl'>) =>
  startSnapshot(id, VM, upload)

/** Returns the same URLs at another host. */
const elsewhere = (upload: Upload, host: string): Upload => {
  const moved = (url: string): string => url.replace(/^https:\/\/[^/]+/, host)
  return {
    ...upload,
    partUrls: upload.partUrls.map(moved),
    completeUrl: moved(upload.completeUrl),
    headUrl: moved(upload.headUrl),
  }
}

story('a canary in signed URLs appears nowhere', {
  'valid URLs stay with root while they are used': async (t) => {
    atEnd(t, () => configure('log', { level: undefined }))
    await configure('log', { level: 'debug' })
    await makeStopped(VM, 192, 40)
    const upload = await stage.begin('secret.img.zst')
    const release = await holdObjectStore()
    try {
      await start('good', upload)
      await snapshotIs('good', 'is staged', ({ parts }) => parts.packed > 2)
      await readAll()
      await assertKept()
      for (const word of [CANARY, ...UPLOAD_WORDS])
        assert.ok(
          (await filesWith(`${STATE}/vmhostd.db*`, word)).length > 0,
          'the canary is not where it must be',
        )
      await crashDaemon()
      await assertKept()
    } finally {
      await release()
    }
    await completed('good')
    await readAll()
  },
  'URLs that have expired, were changed, or lead elsewhere are reported without any part of them':
    async () => {
      const upload = await stage.begin('bad.img.zst', { expiresSeconds: 1 })
      await expired(upload)
      await start('expired', upload)
      await snapshotIs('expired', 'needs URLs', ({ needs_urls }) => needs_urls)
      const fresh = await stage.bucket.signAgain(upload)
      const tampered = (url: string): string => url.replace(/Signature=[0-9a-f]{8}/, 'Signature=00000000')
      await handOver('expired', { ...fresh, partUrls: fresh.partUrls.map(tampered) })
      await snapshotIs('expired', 'needs URLs again', ({ needs_urls }) => needs_urls)
      for (const [id, host] of [
        ['nobody', 'https://nobody.invalid:8443'],
        ['closed', 'https://store.example.net:1'],
      ] as const) {
        await start(id, elsewhere(upload, host))
        const { error } = await snapshotIs(id, 'is in trouble', ({ fault }) => fault !== undefined)
        assert.ok(error !== undefined)
      }
      await readAll()
      for (const id of ['expired', 'nobody', 'closed']) await deleteSnapshot(id)
    },
  'a store that fails in the middle is reported without any part of a URL': async () => {
    await configure('snapshots', { upload_mbit_per_second: 40 })
    const upload = await stage.begin('reset.img.zst')
    await start('reset', upload)
    await snapshotIs('reset', 'is sending', ({ parts }) => parts.packed > 4)
    await stopObjectStore()
    await snapshotIs('reset', 'is in trouble', ({ fault }) => fault !== undefined)
    await readAll()
    await startObjectStore()
    await configure('snapshots', { upload_mbit_per_second: undefined })
    await completed('reset')
  },
  'refused requests are answered without any part of a URL': async () => {
    const upload = await stage.begin('refused.img.zst')
    const [partUrl = ''] = upload.partUrls
    const members = { part_size_mib: 5, part_urls: upload.partUrls, complete_url: upload.completeUrl }
    const loopback = elsewhere(upload, 'https://127.0.0.1:8443')
    for (const body of [
      { vm_id: 'nobody', upload: members },
      { vm_id: VM, upload: { ...members, part_urls: loopback.partUrls } },
      { vm_id: VM, upload: { ...members, part_urls: [partUrl, partUrl] } },
      { vm_id: VM, upload: { ...members, part_urls: [partUrl.replace('https:', 'ftp:')] } },
      { vm_id: VM, upload: { ...members, part_urls: [partUrl.replace('https://', 'https://user:word@')] } },
      { vm_id: VM, upload: { ...members, part_url: partUrl } },
      { vm_id: partUrl, upload: members },
      { vm_id: VM, upload: { ...members, [partUrl]: 1 } },
      [upload],
      [partUrl],
      partUrl,
    ]) {
      const status = await ask('PUT', '/v1/snapshots/refused', body)
      assert.ok(status >= 400 && status < 500, `${status}`)
    }
    // A request that breaks off in the middle of a URL.
    const answer = await sh(
      'sh',
      '-c',
      `curl --silent ${CURL_TLS} -X PUT -H 'content-type: application/json' \\
      --data '{"vm_id": "${VM}", "upload": {"part_urls": ["${partUrl}' https://localhost:9000/v1/snapshots/broken`,
    )
    assert.match(answer, /"status":\s*400/)
    answers.push(answer)
    await stage.bucket.abort(upload)
  },
  'URLs of uploads that have ended are no longer stored': async () => {
    // The completed ones are still on record, so their end is what counts.
    assert.deepEqual(await filesWith(STATE), [])
    for (const id of ['good', 'reset']) await deleteSnapshot(id)
  },
  'images by valid, bad and expired URLs are reported without any part of them': async () => {
    const sha256 = await sha256Of(diskOf(VM))
    const rootfs = { url: await stage.bucket.getUrl('secret.img.zst'), sha256 }
    const create = (id: string, image: object) =>
      ask('PUT', `/v1/vms/${id}`, {
        ...guestRequest({ power: 'stopped', image: { rootfs: { ...rootfs, ...image } } }),
        disk: { size_mib: 192 },
      })
    for (const [id, image] of [
      ['img-absent', { url: await stage.bucket.getUrl('absent.img.zst'), sha256: '1'.repeat(64) }],
      ['img-tampered', { url: `${rootfs.url}0`, sha256: '2'.repeat(64) }],
      ['img-other', { sha256: '3'.repeat(64) }],
      ['img-closed', { url: rootfs.url.replace(':8443', ':1'), sha256: '4'.repeat(64) }],
    ] as const) {
      assert.equal(await create(id, image), 202)
      await until(`${id} is in trouble`, async () => {
        const { body } = await call('GET', `/v1/vms/${id}`)
        if (body.observed.error === undefined) return undefined
        answers.push(JSON.stringify(body))
        return true
      })
      await readAll()
      await remove(id)
    }
    assert.equal(await create('img-good', {}), 202)
    await settled('img-good', 'stopped')
    await readAll()
    await remove('img-good')
  },
  'after all of it the canary is nowhere: no answer, no log line, no file, no process': async () => {
    await mutate('PUT', `/v1/vms/${VM}/power`, { state: 'stopped' })
    await remove(VM)
    await stagingEmpty()
    assert.ok(answers.length > 40)
    for (const answer of answers) {
      assert.ok(!answer.includes(CANARY), answer.slice(0, 400))
      assert.ok(!answer.includes('X-Amz-'), answer.slice(0, 400))
    }
    for (const needle of [CANARY, 'X-Amz-Signature', 'uploadId=']) {
      assert.equal((await journalWith(needle)).slice(0, 1000), '')
    }
    assert.deepEqual(await processesWith(), [])
    assert.deepEqual(await filesWith('/run/vmhostd'), [])
    assert.deepEqual(await filesWith(POOL), [])
    assert.ok(Number(await mainPid('vmhostd')) > 0)
    // Image sources of VMs leave the log of the database at the latest when it is opened again. URLs of snapshots are
    // gone without that: each word below occurs only in theirs.
    for (const word of UPLOAD_WORDS) assert.deepEqual(await filesWith(STATE, word), [], word)
    await sh('systemctl', 'restart', 'vmhostd')
    await ready()
    assert.deepEqual(await filesWith(STATE), [])
  },
})
