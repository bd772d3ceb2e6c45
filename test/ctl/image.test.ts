import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { before, test } from 'node:test'
import { createVm } from '../../src/commands/vm/create-vm.ts'
import { createRequest } from '../command-stage.ts'
import { makePki } from '../daemon/support/controller-host.ts'
import { until } from '../contract/until.ts'
import { ctl, startCtlStage } from './support/ctl-stage.ts'
import { HOUR_MS } from '../../src/lib/time-units.ts'
import type { Sha256, VmId } from '../../src/core/ids.ts'
import type { Image } from '../../src/client/api-client.ts'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { CtlStage } from './support/ctl-stage.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

/** Puts an image that was fetched two hours ago. */
async function fetch({ host: { host } }: CtlStage, content: Uint8Array): Promise<Sha256> {
  const sha256 = createHash('sha256').update(content).digest('hex') as Sha256
  host.storage.now = () => Date.now() - 2 * HOUR_MS
  await host.storage.ensureImage(sha256, host.storage.offer(content), new AbortController().signal)
  return sha256
}

function create({ host: { context, host } }: CtlStage, id: string, sha256: Sha256): void {
  const source = host.storage.offer(Buffer.from('any'))
  const images = (['rootfs', 'kernel'] as const).map((role) => ({ role, sha256, source }))
  const request = createRequest({ network: {} })
  const nowMs = Date.now() - HOUR_MS
  const made = createVm({ ...context, now: () => nowMs }, id as VmId, {
    ...request,
    image: { ...request.image, images },
  })
  assert.ok(made.ok, JSON.stringify(made))
}

test('images are listed with their size, their part, their users, and the time since they were fetched', async (t) => {
  const stage = await startCtlStage(t, pki, { userIds: 10 })
  assert.deepEqual(await stage.run('image ls'), {
    status: 0,
    out: 'no images; the host fetches them when a VM needs them\n',
    err: '',
  })
  const used = await fetch(stage, Buffer.alloc(3 * 1024 * 1024))
  const unused = await fetch(stage, Buffer.from('other'))
  for (const name of ['web-5', 'web-4', 'web-3', 'web-2', 'web-1']) create(stage, name, used)
  const { status, out, err } = await stage.run('image ls')
  assert.deepEqual([status, err], [0, ''])
  const rows = out
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/))
  assert.deepEqual(rows[0], ['IMAGE', 'SIZE', 'PART', 'LAST USED', 'FETCHED', 'VMS'])
  const expected = [
    [used.slice(0, 12), '3 MiB', 'rootfs, kernel', '1 h ago', '2 h ago', 'web-1, web-2, web-3 and 2 more'],
    [unused.slice(0, 12), '1 MiB', '-', '-', '2 h ago', '-'],
  ]
  assert.deepEqual(
    rows.slice(1),
    expected.toSorted(([a = ''], [b = '']) => (a < b ? -1 : 1)),
  )
  const { items } = JSON.parse((await stage.run('image ls --json')).out)
  assert.deepEqual(
    items.map(({ sha256 }: { sha256: string }) => sha256),
    [used, unused].toSorted(),
  )
})

test('an image under removal is listed as such until the host has removed it', async (t) => {
  const stage = await startCtlStage(t, pki)
  const image = await fetch(stage, Buffer.from('one'))
  const removed = stage.host.host.storage.holdNext('removeImage')
  await stage.run(`image rm ${image}`)
  assert.match((await stage.run('image ls')).out, /\n[0-9a-f]{12} .* being removed .*\n$/)
  removed()
})

test('an image is removed by its digest or the beginning of it', async (t) => {
  const stage = await startCtlStage(t, pki)
  const [one, two] = [await fetch(stage, Buffer.from('one')), await fetch(stage, Buffer.from('two'))]
  const { status, out, err } = await stage.run(`image rm ${one.slice(0, 8).toUpperCase()} ${two}`)
  assert.deepEqual([status, err], [0, ''])
  assert.equal(out, `${one.slice(0, 12)}: is being removed\n${two.slice(0, 12)}: is being removed\n`)
  const { imageFiles } = stage.host.host.storage
  await until(
    () => imageFiles.size,
    (size) => size === 0,
  )
  assert.equal((await stage.run(`image rm ${two}`)).status, 0)
  const gone = await stage.run(`image rm ${two.slice(0, 8)}`)
  assert.deepEqual([gone.status, gone.out], [1, ''])
  assert.match(gone.err, /there is no image [0-9a-f]{8}\n {2}vmhostctl image ls/)
})

test('a name that matches no image, or several, removes none', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { imageFiles } = stage.host.host.storage
  const twins = ['0', '1'].map((end) => `${'ab'.repeat(31)}a${end}` as Sha256)
  for (const sha256 of twins) imageFiles.set(sha256, { content: Buffer.from('x'), fetchedAtMs: 0 })
  const several = await stage.run('image rm abababababab')
  assert.equal(several.status, 1)
  for (const sha256 of twins) assert.ok(several.err.includes(sha256))
  for (const name of ['ababab', 'nonsense', 'a'.repeat(65)]) {
    const { status, err } = await stage.run(`image rm ${name}`)
    assert.equal(status, 2)
    assert.match(err, /names no image\n {2}write its SHA-256/)
  }
  assert.equal(imageFiles.size, 2)
})

test('a wrong name among several is refused before any image is removed', async (t) => {
  const stage = await startCtlStage(t, pki)
  const image = await fetch(stage, Buffer.from('one'))
  const { status, out, err } = await stage.run(`image rm ${image} oops --json`)
  assert.deepEqual([status, out], [2, ''])
  assert.equal(JSON.parse(err).error.image, 'oops')
  const { items } = JSON.parse((await stage.run('image ls --json')).out)
  assert.deepEqual(
    items.map(({ sha256, removing }: Image) => [sha256, removing]),
    [[image, undefined]],
  )
})

test('an image in use stays, with a hint where to look, and the other named images are removed', async (t) => {
  const stage = await startCtlStage(t, pki)
  const [used, unused] = [await fetch(stage, Buffer.from('used')), await fetch(stage, Buffer.from('unused'))]
  create(stage, 'web-1', used)
  const { status, out, err } = await stage.run(`image rm ${used.slice(0, 12)} ${unused.slice(0, 12)}`)
  assert.equal(status, 1)
  assert.equal(out, `${unused.slice(0, 12)}: is being removed\n`)
  assert.match(
    err,
    new RegExp(
      `the image ${used.slice(0, 8)} is in use by the VM web-1 on this host.*\n  vmhostctl image ls names`,
    ),
  )
  await until(
    () => [...stage.host.host.storage.imageFiles.keys()],
    (digests) => digests.length === 1 && digests[0] === used,
  )
})

test('the digests of images are completed from the daemon', async (t) => {
  const stage = await startCtlStage(t, pki)
  const sha256 = await fetch(stage, Buffer.from('one'))
  const shell = { environment: { VMHOSTCTL_PROFILE: stage.profile } }
  const { out } = await ctl(['__complete', 'image', 'rm', sha256.slice(0, 4)], { shell })
  assert.equal(out.split('\t', 1)[0], sha256)
})
