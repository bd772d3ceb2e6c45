import { skip } from './own-netns.ts'
import assert from 'node:assert/strict'
import type { LookupAddress } from 'node:dns'
import type { RequestListener } from 'node:http'
import { test } from 'node:test'
import { errorChain } from '../../src/log/error-chain.ts'
import { Pool } from '../../src/host/storage/pool.ts'
import { poolIdOf } from '../../src/host/pool/pool-marker.ts'
import { silentLog } from '../../src/log/log.ts'
import type { Sha256 } from '../../src/core/ids.ts'
import { ANYWHERE } from '../fakes/outbound.ts'
import { content, ensure, faultOf, outboundOf, SECRET, send, serve, stageOf } from './image-fetch-stage.ts'

/** Names of a test, each with its address. */
const resolving =
  (names: Readonly<Record<string, string>>) =>
  (name: string, answer: (error: Error | null, addresses: readonly LookupAddress[]) => void): void => {
    const address = names[name]
    if (address === undefined) answer(Object.assign(new Error(name), { code: 'ENOTFOUND' }), [])
    else answer(null, [{ address, family: 4 }])
  }

const redirect =
  (location: string): RequestListener =>
  (_request, response) =>
    response.writeHead(302, { location }).end()

for (const [what, location] of [
  ['the metadata service of a cloud', `http://169.254.169.254/latest/secret-path?${SECRET}`],
  ['the same address in IPv6 form', `http://[::ffff:a9fe:a9fe]/secret-path?${SECRET}`],
  ['a loopback address that is not allowed', `http://127.0.0.2/secret-path?${SECRET}`],
  ['a name of such an address', `http://metadata.example.org/secret-path?${SECRET}`],
  ['the address of a guest', `http://192.0.2.10/secret-path?${SECRET}`],
  ['another scheme', `gopher://images.example.org/secret-path?${SECRET}`],
] as const) {
  test(`an image is not fetched from ${what}, neither directly nor by a redirect`, { skip }, async (t) => {
    const { pool, temporaries, images } = await stageOf(t)
    const outbound = outboundOf(t, {
      resolve: resolving({ 'metadata.example.org': '169.254.169.254' }),
      isGuest: (address) => address === '192.0.2.10',
    })
    for (const url of [location, await serve(t, redirect(location))]) {
      const fault = await faultOf(ensure(pool({ outbound }), url))
      assert.equal(fault.code, 'image_source_refused', errorChain(fault))
      assert.deepEqual([temporaries(), images()], [[], []])
    }
  })
}

test('a name that leads to this host is refused, even if it led elsewhere before', { skip }, async (t) => {
  const { pool, stored } = await stageOf(t)
  const url = (await serve(t, send)).replace('127.0.0.1', 'images.example.org')
  const addresses = ['127.0.0.1', '127.0.0.2']
  const outbound = outboundOf(t, {
    resolve: (_name, answer) => answer(null, [{ address: addresses.shift() ?? '', family: 4 }]),
  })
  const storage = pool({ outbound })
  await ensure(storage, url)
  assert.ok(stored().equals(content))
  const other = ensure(storage, url, { digest: 'ab'.repeat(32) as Sha256 })
  assert.equal((await faultOf(other)).code, 'image_source_refused')
})

test('a broken-off download is not continued if its name now leads elsewhere', { skip }, async (t) => {
  const { pool, temporaries } = await stageOf(t)
  const addresses = ['127.0.0.1', '169.254.169.254']
  const url = await serve(t, (_request, response) => {
    response.writeHead(200, { 'content-length': content.length })
    response.write(content.subarray(0, 1000), () => response.destroy())
  })
  const outbound = outboundOf(t, {
    resolve: (_name, answer) => answer(null, [{ address: addresses.shift() ?? '', family: 4 }]),
  })
  const bounds = { resumeDelayMs: () => 1 }
  const fault = await faultOf(
    ensure(pool({ outbound, bounds }), url.replace('127.0.0.1', 'images.example.org')),
  )
  assert.equal(fault.code, 'image_source_refused')
  assert.deepEqual(temporaries(), [])
})

test('hosts that are not on the allow-list are refused, in redirects too', { skip }, async (t) => {
  const { pool } = await stageOf(t)
  const policy = {
    ...ANYWHERE,
    allowHttp: true,
    allowedHosts: ['127.0.0.1'],
    allowedNetworks: ['127.0.0.1/32'],
  }
  const storage = pool({ outbound: outboundOf(t, { policy }) })
  const elsewhere = `http://images.example.org/secret-path?${SECRET}`
  for (const url of [elsewhere, await serve(t, redirect(elsewhere))]) {
    const fault = await faultOf(ensure(storage, url))
    assert.match(errorChain(fault), /names images\.example\.org, which is not among the allowed hosts/)
  }
})

test('without outbound access only images from files are fetched', { skip }, async (t) => {
  const { directory } = await stageOf(t)
  const pool = new Pool({ directory, poolId: await poolIdOf(directory), log: silentLog })
  assert.equal((await faultOf(ensure(pool, await serve(t, send)))).code, 'image_source_refused')
})
