import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, before, test } from 'node:test'
import { noObjectStore as skip, startObjectStore, STORE_NETWORKS } from '../../lab/inside/object-store.ts'
import { bucketOf } from '../../lab/inside/presign.ts'
import { sh } from '../../lab/inside/shell.ts'
import { until } from '../../lab/inside/until.ts'
import { SignedUrl } from '../../src/core/outbound/signed-url.ts'
import { BandwidthLimit } from '../../src/host/object-store/transfer-limits.ts'
import { HttpObjectStore } from '../../src/host/object-store/http-object-store.ts'
import { Outbound } from '../../src/host/outbound/outbound-request.ts'
import { systemClock } from '../../src/host/system-clock.ts'
import { bodyOf, objectStoreContract } from '../contract/object-store.contract.ts'
import type { StagedUpload } from '../contract/object-store.contract.ts'
import { assertNoSecret, CANARY } from '../broken-store.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import type { StoreAccess } from '../../lab/inside/presign.ts'
import type { Bucket, Upload } from '../../lab/inside/presign.ts'

const never = new AbortController().signal
/** Allows the store to listen on an address of this host. */
const THERE = { ...ANYWHERE, allowedNetworks: STORE_NETWORKS }
const scratch = mkdtempSync(join(tmpdir(), 'vmh-store-'))
let access: StoreAccess
let bucket: Bucket
let outbound: Outbound
let uploads = 0

before(async () => {
  if (skip !== false) return
  access = await startObjectStore()
  bucket = bucketOf(access, CANARY)
  outbound = new Outbound({ policy: THERE, extraCa: [readFileSync(access.caFile, 'utf8')] })
})

after(() => {
  bucket?.close()
  outbound?.close()
  rmSync(scratch, { recursive: true })
})

const newStore = (): HttpObjectStore =>
  new HttpObjectStore({ outbound, limit: new BandwidthLimit(0, systemClock), clock: systemClock })

/** Changes one digit of the signature of a signed URL. */
const tampered = (url: string): string =>
  url.replace(
    /(X-Amz-Signature=)([0-9a-f])/,
    (_, name: string, digit: string) => name + (digit === '0' ? '1' : '0'),
  )

async function download({ getUrl, key }: Upload): Promise<Uint8Array | undefined> {
  if ((await bucket.sizeOf(key)) === undefined) return undefined
  const file = join(scratch, key)
  await sh('curl', '--silent', '--fail', '--cacert', access.caFile, '--output', file, getUrl)
  return readFileSync(file)
}

async function openUpload(): Promise<StagedUpload> {
  const upload = await bucket.createUpload(`object-${uploads++}`, 2)
  const partUrl = (number: number): string => upload.partUrls[number - 1] ?? ''
  return {
    partUrl,
    completeUrl: upload.completeUrl,
    headUrl: upload.headUrl,
    expiredPartUrl: (number) => tampered(partUrl(number)),
    abort: () => bucket.abort(upload),
    object: () => download(upload),
  }
}

objectStoreContract('OpenStack Swift', async () => ({ store: newStore(), openUpload }), { skip })

test('a URL is expired once its time is over, and no part of it is reported', { skip }, async () => {
  const { partUrls } = await bucket.createUpload('short-lived', 1, { expiresSeconds: 1 })
  const [part = ''] = partUrls
  const bytes = Buffer.from('the part')
  const md5 = createHash('md5').update(bytes).digest('hex')
  const outcome = await until('the URL is expired', async () => {
    const answer = await newStore().putPart({ url: new SignedUrl(part), body: bodyOf(bytes), md5 }, never)
    return answer.kind === 'stored' ? undefined : answer
  })
  assertNoSecret(outcome)
  assert.deepEqual(outcome, { kind: 'expired', because: 'it answered 403 (AccessDenied)' })
})

test('a store on an address of this host is not used, unless that is allowed', { skip }, async () => {
  const { headUrl } = await openUpload()
  const limit = new BandwidthLimit(0, systemClock)
  // The second case notices after it connects, as if no interface listed the address.
  for (const options of [{}, { ownAddresses: () => [] }]) {
    const careful = new Outbound({ policy: ANYWHERE, ...options })
    const store = new HttpObjectStore({ outbound: careful, limit, clock: systemClock })
    const outcome = await store.head(new SignedUrl(headUrl), never)
    careful.close()
    assertNoSecret(outcome)
    assert.equal(outcome.kind, 'not_allowed')
    assert.match('because' in outcome ? outcome.because : '', /an address of this host/)
  }
})

test('a store is not used without its certificate authority', { skip }, async () => {
  const stranger = new Outbound({ policy: THERE })
  const limit = new BandwidthLimit(0, systemClock)
  const store = new HttpObjectStore({ outbound: stranger, limit, clock: systemClock })
  const upload = await openUpload()
  const outcome = await store.head(new SignedUrl(upload.headUrl), never)
  stranger.close()
  assertNoSecret(outcome)
  assert.equal(outcome.kind, 'busy')
  assert.match('because' in outcome ? outcome.because : '', /extra_ca_file .*\([A-Z_]+\)$/)
})
