import assert from 'node:assert/strict'
import { mock, test } from 'node:test'
import { commandStage, createRequest } from '../../../test/command-stage.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { packed, urlOf } from '../../../test/store-stage.ts'
import { limits } from '../../config/limits.ts'
import { createVm } from '../vm/create-vm.ts'
import { deleteVm } from '../vm/delete-vm.ts'
import { completeSnapshot, deleteSnapshot, handOverUrls, startSnapshot } from './snapshots.ts'
import type { TestContext } from 'node:test'
import type { Rejection } from '../../core/errors.ts'
import type { SnapshotId, SnapshotRecord, Trouble, SnapshotUrls } from '../../core/snapshots/record.ts'
import type { VmId } from '../../core/ids.ts'
import type { SnapshotChange } from '../../store/snapshots/snapshot-table.ts'
import type { SnapshotResult, StartSnapshot } from './snapshots.ts'

const ID = 's-1' as SnapshotId
const trouble: Trouble = { code: 'upload_busy', message: 'the store is busy', sinceMs: 1, attempt: 16 }

/** Returns URLs for as many parts, and the one for the completion; another `signature` gives other URLs. */
const urlsOf = (signature: string, parts = 2): SnapshotUrls => ({
  firstPart: 1,
  parts: Array.from({ length: parts }, (_, index) => urlOf(`part=${index + 1}&signature=${signature}`)),
  complete: urlOf(`complete&signature=${signature}`),
})

/** Sets up a VM and records what happens to its snapshots. */
function stage(t: TestContext) {
  const { context, store, id } = commandStage(t)
  createVm(context, id, createRequest({}, '1'))
  const woken: string[] = []
  context.pokeSnapshot = (snapshot, { reason }) => woken.push(`${snapshot}: ${reason}`)
  const request = (changes: Partial<StartSnapshot> = {}): StartSnapshot => ({
    vmId: id,
    partMib: 5,
    urls: urlsOf('1'),
    ...changes,
  })
  return {
    context,
    store,
    id,
    woken,
    start: (changes: Partial<StartSnapshot> = {}, snapshot: SnapshotId = ID) =>
      startSnapshot(context, snapshot, request(changes)),
    advance: (change: Omit<SnapshotChange, 'nowMs'>) =>
      store.snapshots.advance(ID, { nowMs: 1500, ...change }),
    /** Returns what a command did: whether it changed anything, and whom it woke. */
    done: (result: SnapshotResult): readonly [boolean, ...string[]] => {
      assert.ok(result.ok, result.ok ? '' : JSON.stringify(result.error))
      assert.deepEqual(result.value.record, store.snapshots.get(result.value.record.id))
      assert.equal(result.value.operationId !== undefined, result.value.changed)
      return [result.value.changed, ...woken.splice(0)]
    },
    /** Returns why the command was refused; nothing is stored then. */
    refusal: (result: () => SnapshotResult): Rejection & { readonly detail: string } => {
      const before = store.snapshots.list({ limit: 99 })
      const answer = result()
      assert.ok(!answer.ok, 'it was accepted')
      assert.ok('detail' in answer.error)
      assert.deepEqual(store.snapshots.list({ limit: 99 }), before)
      assert.deepEqual(woken, [])
      return answer.error
    },
  }
}

const said = ({ stage: at, trouble: why }: SnapshotRecord): readonly unknown[] => [at, why?.code]

test('a new snapshot is stored with its URLs, of the VM that is there now, and its owner woken', (t) => {
  const { start, store, done, id } = stage(t)
  assert.deepEqual(done(start()), [true, 's-1: started'])
  const record = store.snapshots.get(ID)
  assert.equal(record?.stage, 'waiting')
  assert.equal(record.vmCreatedAtMs, store.vms.get(id)?.createdAtMs)
  assert.deepEqual(store.snapshots.urlsAtHand(ID), { parts: new Set([1, 2]), complete: true, head: false })
})

test('the same request again changes nothing, in whatever stage the snapshot is', (t) => {
  const { start, store, done, advance } = stage(t)
  start()
  const stages = ['waiting', 'capturing', 'packing', 'sending', 'completing', 'completed'] as const
  done(start())
  for (const at of stages) {
    advance({ stage: at })
    const before = store.snapshots.get(ID)
    assert.deepEqual(done(start()), [false], at)
    assert.deepEqual(store.snapshots.get(ID), before)
  }
})

test('fresh URLs in a repeat replace the stored ones and end the trouble', (t) => {
  const { start, store, done, advance } = stage(t)
  done(start())
  advance({ stage: 'packing', trouble })
  assert.deepEqual(done(start({ urls: urlsOf('2', 1) })), [true, 's-1: started'])
  const record = store.snapshots.get(ID)
  assert.deepEqual(record && said(record), ['packing', undefined])
  assert.ok(store.snapshots.url(ID, 1)?.equals(urlOf('part=1&signature=2')))
  assert.ok(store.snapshots.url(ID, 2)?.equals(urlOf('part=2&signature=1')))
})

test('another VM or another size of parts at the same id is a conflict', (t) => {
  const { context, start, done, refusal } = stage(t)
  const other = 'web-2' as VmId
  createVm(context, other, createRequest({ network: { ipv4Address: '192.0.2.11' } }, '1'))
  done(start())
  for (const changes of [{ vmId: other }, { partMib: 6 }]) {
    const { code, detail } = refusal(() => start(changes))
    assert.equal(code, 'conflict')
    assert.match(detail, /s-1 is a snapshot of web-1 in parts of 5 MiB/)
  }
  assert.deepEqual(done(start({ vmId: other }, 's-2' as SnapshotId)), [true, 's-2: started'])
})

test('there is no snapshot of a VM that is not there, or is being deleted', (t) => {
  const { context, start, id, refusal } = stage(t)
  assert.equal(refusal(() => start({ vmId: 'none' as VmId })).code, 'not_found')
  deleteVm(context, id)
  assert.equal(refusal(() => start()).code, 'vm_deleting')
})

test('a snapshot outlives its VM: a repeat is answered when that is gone, and when another one has its id', (t) => {
  const { context, store, start, id, done } = stage(t)
  done(start())
  const vmCreatedAtMs = store.snapshots.get(ID)?.vmCreatedAtMs
  deleteVm(context, id)
  assert.deepEqual(done(start()), [false])
  store.vms.forget(id, 2000)
  assert.deepEqual(done(start()), [false])
  context.now = () => 3000
  createVm(context, id, createRequest({}, '1'))
  assert.deepEqual(done(start()), [false])
  assert.deepEqual(done(start({ urls: urlsOf('2') })), [true, 's-1: started'])
  assert.equal(store.snapshots.get(ID)?.vmCreatedAtMs, vmCreatedAtMs)
  done(start({}, 's-2' as SnapshotId))
  assert.equal(store.snapshots.get('s-2' as SnapshotId)?.vmCreatedAtMs, 3000)
})

test('an id that is used again has another staging', (t) => {
  const { context, store, start } = stage(t)
  start()
  const first = store.snapshots.get(ID)?.stagingId
  deleteSnapshot(context, ID)
  start()
  assert.notEqual(store.snapshots.get(ID)?.stagingId, first)
})

test('a part that does not fit into staging is refused at once', (t) => {
  const { context, start, refusal, done } = stage(t)
  context.stagingQuotaMib = () => 64
  const { code, errors } = refusal(() => start({ partMib: 65 })) as Rejection & { errors: readonly object[] }
  assert.equal(code, 'invalid_request')
  assert.match(JSON.stringify(errors), /\/upload\/part_size_mib.*65 MiB does not fit.*64 MiB/)
  assert.deepEqual(done(start({ partMib: 64 })), [true, 's-1: started'])
})

test('a URL that is not allowed is refused with its place in the request, and never repeated', (t) => {
  const { context, start, done, refusal } = stage(t)
  context.outbound = { ...ANYWHERE, allowedHosts: ['store.example'] }
  done(start())
  const bad = { ...urlsOf('1', 3), head: urlOf('secret') }
  context.outbound = { ...ANYWHERE, allowedHosts: ['other.example'] }
  const outcome = (result: () => SnapshotResult): string[] => {
    const { code, errors, detail } = refusal(result) as Rejection & {
      readonly errors: readonly { readonly pointer: string; readonly detail: string }[]
      readonly detail: string
    }
    assert.equal(code, 'url_not_allowed')
    assert.doesNotMatch(`${detail}${JSON.stringify(errors)}`, /signature|secret|key/)
    for (const error of errors) assert.match(error.detail, /^it names store\.example, which is not among/)
    return errors.map(({ pointer }) => pointer)
  }
  const pointers = ['/part_urls/0', '/part_urls/1', '/part_urls/2', '/complete_url', '/head_url']
  assert.deepEqual(
    outcome(() => handOverUrls(context, ID, bad)),
    pointers,
  )
  const underUpload = pointers.map((pointer) => `/upload${pointer}`)
  assert.deepEqual(
    outcome(() => start({ urls: bad }, 's-2' as SnapshotId)),
    underUpload,
  )
  assert.deepEqual(
    outcome(() => completeSnapshot(context, ID, { complete: urlOf('secret') })),
    ['/complete_url'],
  )
  assert.equal(outcome(() => handOverUrls(context, ID, urlsOf('1', 500))).length, limits.findingsShown)
})

test('a repeat is answered whatever URLs and sizes this host has come to refuse, and stores none of them', (t) => {
  const { context, start, store, done, advance, refusal } = stage(t)
  done(start())
  context.outbound = { ...ANYWHERE, allowedHosts: ['elsewhere.example'] }
  context.stagingQuotaMib = () => 1
  assert.deepEqual(done(start()), [false])
  assert.equal(refusal(() => start({ urls: urlsOf('2') })).code, 'url_not_allowed')
  for (const at of ['sending', 'completed'] as const) {
    advance({ stage: at })
    assert.deepEqual(done(start()), [false], at)
  }
  assert.deepEqual(done(start({ urls: urlsOf('2') })), [false], 'a completed snapshot needs no URL')
  assert.equal(refusal(() => start({}, 's-2' as SnapshotId)).code, 'url_not_allowed')
  assert.ok(store.snapshots.get('s-2' as SnapshotId) === undefined)
})

test('a host with all the snapshots it may have refuses another one, and continues those', (t) => {
  const { store, start, done, refusal } = stage(t)
  done(start())
  store.snapshots.count = () => limits.snapshotsMax
  assert.equal(refusal(() => start({}, 's-2' as SnapshotId)).code, 'snapshots_full')
  assert.deepEqual(done(start({ urls: urlsOf('2') })), [true, 's-1: started'])
})

test('fresh URLs are handed over once; those of parts that were sent do not count', (t) => {
  const { context, store, start, done, advance } = stage(t)
  start({ urls: { firstPart: 1, parts: [] } })
  advance({ stage: 'packing' })
  done(handOverUrls(context, ID, urlsOf('1')))
  assert.deepEqual(done(handOverUrls(context, ID, urlsOf('1'))), [false])
  for (const number of [1, 2]) store.snapshots.addPart(ID, ...packed(number), 1500)
  store.snapshots.setEtag(ID, 1, { etag: 'e', url: urlOf('sent') }, 1500)
  const renewed = { firstPart: 1, parts: [urlOf('part=1&signature=2')] }
  assert.deepEqual(done(handOverUrls(context, ID, renewed)), [false])
  assert.deepEqual(done(handOverUrls(context, ID, { ...renewed, firstPart: 2 })), [true, 's-1: fresh URLs'])
  assert.deepEqual(done(handOverUrls(context, ID, { firstPart: 1, parts: [], head: urlOf('h') })), [
    true,
    's-1: fresh URLs',
  ])
})

test('URLs that were used up may be handed over again as they were', (t) => {
  const { context, store, start, done } = stage(t)
  done(start())
  store.snapshots.dropUrls(ID, 1500, 1)
  assert.deepEqual(done(handOverUrls(context, ID, urlsOf('1'))), [true, 's-1: fresh URLs'])
})

test('completion may be asked for before all is sent, again, and after it is done', (t) => {
  const { context, store, start, done, advance } = stage(t)
  done(start({ urls: { firstPart: 1, parts: [urlOf('1')] } }))
  const urls = { complete: urlOf('complete'), head: urlOf('head') }
  assert.deepEqual(done(completeSnapshot(context, ID, urls)), [true, 's-1: fresh URLs'])
  assert.deepEqual(store.snapshots.urlsAtHand(ID), { parts: new Set([1]), complete: true, head: true })
  assert.equal(store.snapshots.get(ID)?.stage, 'waiting')
  assert.deepEqual(done(completeSnapshot(context, ID, urls)), [false])
  advance({ stage: 'completing', completionSent: true })
  assert.deepEqual(done(completeSnapshot(context, ID, urls)), [false])
  const others = { complete: urlOf('complete again') }
  assert.deepEqual(done(completeSnapshot(context, ID, others)), [true, 's-1: fresh URLs'])
  advance({ stage: 'completed' })
  for (const again of [urls, others]) assert.deepEqual(done(completeSnapshot(context, ID, again)), [false])
  assert.deepEqual(store.snapshots.urlsAtHand(ID), { parts: new Set(), complete: false, head: false })
})

test('a snapshot that failed because of the store goes on with URLs, the same ones too', (t) => {
  const { context, store, start, done, advance } = stage(t)
  done(start())
  for (const again of [() => handOverUrls(context, ID, urlsOf('1')), () => start()]) {
    advance({ stage: 'failed', resumable: true, trouble })
    assert.equal(done(again())[0], true)
    const record = store.snapshots.get(ID)
    assert.deepEqual(record && said(record), ['waiting', undefined])
  }
})

test('a snapshot that failed for good takes no URLs and says why; a repeat of its start returns it as it is', (t) => {
  const { context, store, start, done, refusal, advance } = stage(t)
  done(start())
  advance({ stage: 'failed', trouble: { ...trouble, message: 'the pool is full' } })
  for (const change of [
    () => handOverUrls(context, ID, urlsOf('2')),
    () => completeSnapshot(context, ID, { complete: urlOf('c') }),
  ]) {
    const { code, detail } = refusal(change)
    assert.equal(code, 'snapshot_failed')
    assert.equal(detail, 's-1 has failed for good: the pool is full')
  }
  assert.deepEqual(done(start({ urls: urlsOf('2') })), [false])
  assert.deepEqual(store.snapshots.urlsAtHand(ID).parts, new Set())
})

test('a missing snapshot takes no URLs and no completion', (t) => {
  const { context, refusal } = stage(t)
  assert.equal(refusal(() => handOverUrls(context, ID, urlsOf('1'))).code, 'not_found')
  assert.equal(refusal(() => completeSnapshot(context, ID, { complete: urlOf('c') })).code, 'not_found')
})

test('a snapshot is deleted in any stage, and again without effect', (t) => {
  const { context, store, start, done, woken, advance } = stage(t)
  for (const at of ['waiting', 'packing', 'completed', 'failed'] as const) {
    done(start())
    advance({ stage: at })
    deleteSnapshot(context, ID)
    assert.deepEqual(woken.splice(0), ['s-1: deleted'], at)
    assert.equal(store.snapshots.get(ID), undefined)
    deleteSnapshot(context, ID)
    assert.deepEqual(woken, [])
  }
})

test('URLs beyond what a host keeps are refused until others are gone, and their snapshot stays as it is', (t) => {
  const { start, store, context, refusal, done } = stage(t)
  done(start())
  const urlBytes = mock.method(store.snapshots, 'urlBytes', () => limits.snapshotUrlsBytesMax)
  const other = 's-2' as SnapshotId
  const more = refusal(() => handOverUrls(context, ID, urlsOf('2')))
  assert.deepEqual([more.code, refusal(() => start({}, other)).code], ['snapshots_full', 'snapshots_full'])
  assert.match(more.detail, /256 MiB of URLs/)
  assert.deepEqual(done(start()), [false], 'the same request again needs no more of them')
  const ends = { complete: urlOf('c'), head: urlOf('h') }
  assert.deepEqual(done(completeSnapshot(context, ID, ends)), [true, 's-1: fresh URLs'])
  urlBytes.mock.restore()
  assert.deepEqual(done(start({}, other)), [true, 's-2: started'])
})

/** Returns URLs of one upload, for parts and its end. */
const urlsOfUpload = (uploadId: string, signature: string, firstPart = 1): Required<SnapshotUrls> => ({
  firstPart,
  parts: [1, 2].map((at) => urlOf(`partNumber=${firstPart + at - 1}&uploadId=${uploadId}&sig=${signature}`)),
  complete: urlOf(`uploadId=${uploadId}&sig=${signature}`),
  head: urlOf(`sig=${signature}`),
})

test('once a part was sent, URLs of another upload are refused with their places; the id is not said', (t) => {
  const { context, store, start, done, refusal, advance } = stage(t)
  done(start({ urls: urlsOfUpload('id-one', '1') }))
  advance({ stage: 'packing' })
  done(handOverUrls(context, ID, urlsOfUpload('id-two', '2')))
  const sent = urlsOfUpload('id-two', '2').parts[0] ?? assert.fail()
  store.snapshots.addPart(ID, ...packed(1), 1500)
  store.snapshots.setEtag(ID, 1, { etag: 'e', url: sent }, 1500)
  store.snapshots.dropUrls(ID, 1500, 1)
  const other = urlsOfUpload('id-one', '3')
  const { complete, head } = other
  for (const [change, pointer] of [
    [() => handOverUrls(context, ID, other), '/part_urls/1'],
    [() => start({ urls: other }), '/upload/part_urls/1'],
    [() => handOverUrls(context, ID, urlsOfUpload('id-one', '3', 5)), '/part_urls/0'],
    [() => completeSnapshot(context, ID, { complete, head }), '/complete_url'],
  ] as const) {
    const { code, errors, ...rest } = refusal(change)
    assert.deepEqual([code, errors?.[0]?.pointer], ['upload_differs', pointer])
    assert.doesNotMatch(JSON.stringify([rest, errors]), /id-(one|two)/)
  }
  advance({ stage: 'failed', resumable: true, trouble })
  assert.equal(refusal(() => handOverUrls(context, ID, other)).code, 'upload_differs')
  assert.deepEqual(done(handOverUrls(context, ID, urlsOfUpload('id-two', '4'))), [true, 's-1: fresh URLs'])
})

test('URLs that name no upload are of any, and those of sent parts count as none', (t) => {
  const { context, store, start, done, advance } = stage(t)
  done(start({ urls: urlsOfUpload('id-one', '1') }))
  advance({ stage: 'packing' })
  for (const number of [1, 2]) {
    store.snapshots.addPart(ID, ...packed(number), 1500)
    const url = urlsOfUpload('id-one', '1').parts[number - 1] ?? assert.fail()
    store.snapshots.setEtag(ID, number, { etag: 'e', url }, 1500)
  }
  const { parts } = urlsOfUpload('id-two', '2')
  assert.deepEqual(done(handOverUrls(context, ID, { firstPart: 1, parts })), [false])
  assert.deepEqual(done(handOverUrls(context, ID, urlsOf('3', 4))), [true, 's-1: fresh URLs'])
})
