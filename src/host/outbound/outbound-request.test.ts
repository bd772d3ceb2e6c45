import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { networkInterfaces, tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestContext } from 'node:test'
import { createAuthority, issueCertificate } from '../../daemon/setup/certificates.ts'
import { ANYWHERE } from '../../../test/fakes/outbound.ts'
import { assertNoSecret, breakStore, CANARY } from '../../../test/broken-store.ts'
import type { OutboundPolicy } from '../../core/outbound/outbound-policy.ts'
import { OutboundFailure } from './outbound-failure.ts'
import type { Resolve } from './outbound-addresses.ts'
import { Outbound } from './outbound-request.ts'
import type { OutboundOptions } from './outbound-request.ts'

const run = promisify(execFile)
const never = new AbortController().signal
const HERE: OutboundPolicy = { ...ANYWHERE, allowHttp: true, allowedNetworks: ['127.0.0.0/8'] }

function outboundOf(t: TestContext, options: Partial<OutboundOptions> = {}): Outbound {
  const outbound = new Outbound({ policy: HERE, ...options })
  t.after(() => outbound.close())
  return outbound
}

/** Sends a GET, and returns the status, or why there is no answer. */
async function get(outbound: Outbound, url: string): Promise<number | OutboundFailure> {
  try {
    const answer = await outbound.ask({ method: 'GET', url: new URL(url), signal: never })
    for await (const chunk of answer.chunks) assert.ok(chunk.length > 0)
    await answer.close()
    return answer.status
  } catch (error) {
    assertNoSecret(error)
    assert.ok(error instanceof OutboundFailure)
    return error
  }
}

async function refusalOf(outbound: Outbound, url: string): Promise<string> {
  const failure = await get(outbound, url)
  assert.ok(failure instanceof OutboundFailure, `it answered ${failure}`)
  assert.equal(failure.kind, 'not_allowed')
  return failure.message
}

/** Makes a resolver that gives its answers one after the other, and then always the last one. */
function resolverOf(...answers: readonly (readonly string[])[]): { resolve: Resolve; asked: () => number } {
  let asked = 0
  const resolve: Resolve = (_, answer) => {
    const addresses = answers[Math.min(asked++, answers.length - 1)] ?? []
    answer(
      null,
      addresses.map((address) => ({ address, family: address.includes(':') ? 6 : 4 })),
    )
  }
  return { resolve, asked: () => asked }
}

/** Replaces the host in the URL of a store by a name. */
const renamed = (url: string, name: string): string => url.replace('127.0.0.1', name)

test('forbidden literal addresses in a URL are refused', async (t) => {
  const outbound = outboundOf(t, { policy: { ...ANYWHERE, guestRanges: ['203.0.113.0/24'] } })
  const hosts = [
    ...[
      '127.0.0.1',
      '127.1',
      '2130706433',
      '0x7f.1',
      '0.0.0.0',
      '169.254.169.254',
      '224.0.0.1',
      '255.255.255.255',
    ],
    ...[
      '[::1]',
      '[::]',
      '[fe80::1]',
      '[ff02::1]',
      '[::ffff:127.0.0.1]',
      '[::ffff:7f00:1]',
      '[64:ff9b::7f00:1]',
    ],
    ...['203.0.113.9', '[::ffff:203.0.113.9]'],
  ]
  for (const host of hosts) {
    const refusal = await refusalOf(outbound, `https://${host}/${CANARY}?sig=${CANARY}`)
    assert.match(refusal, /to which this host may not connect/, host)
  }
})

test('the address of a guest is refused, literal or by name, also outside of the configured ranges', async (t) => {
  const store = await breakStore(t, ({ answer }) => answer(200))
  const policy = { ...HERE, allowedNetworks: [] }
  const isGuest = (address: string): boolean => address === '198.51.100.7'
  const { resolve } = resolverOf(['198.51.100.7'])
  const outbound = outboundOf(t, { policy, isGuest, resolve })
  assert.match(await refusalOf(outbound, renamed(store.url, '198.51.100.7')), /the address of a guest/)
  assert.match(
    await refusalOf(outbound, renamed(store.url, '[::ffff:198.51.100.7]')),
    /the address of a guest/,
  )
  assert.match(await refusalOf(outbound, renamed(store.url, 'store.example.net')), /the address of a guest/)
})

test('an address of this host is refused, literal or by name, and looked up again each time', async (t) => {
  const own = ['198.51.100.7', '2001:db8::7']
  const { resolve } = resolverOf(['2001:db8::7', '198.51.100.7'])
  const signal = AbortSignal.abort(new Error('let through'))
  const outbound = outboundOf(t, { ownAddresses: () => own, resolve })
  for (const host of ['198.51.100.7', '[2001:db8::7]', '[::ffff:198.51.100.7]', 'store.example.net'])
    assert.match(await refusalOf(outbound, `http://${host}/${CANARY}`), /is an address of this host/, host)
  own.length = 0
  const url = new URL('http://198.51.100.7/')
  await assert.rejects(outbound.ask({ method: 'GET', url, signal }), /let through/)
})

test('the addresses of this host are those of its interfaces', async (t) => {
  const addresses = Object.values(networkInterfaces()).flatMap((all = []) => all)
  const outbound = outboundOf(t, { policy: { ...HERE, allowedNetworks: [] } })
  assert.ok(addresses.length > 0)
  for (const { address, family } of addresses) {
    const host = family === 'IPv6' ? `[${address}]` : address
    assert.match(await refusalOf(outbound, `http://${host}/`), /an address of this host|loopback|link-local/)
  }
})

test('a name that resolves to loopback is refused, and nothing connects', async (t) => {
  const store = await breakStore(t, ({ answer }) => answer(200))
  const outbound = outboundOf(t, { policy: { ...HERE, allowedNetworks: [] } })
  assert.match(await refusalOf(outbound, renamed(store.url, 'localhost')), /a loopback address/)
  assert.equal(store.connections(), 0)
})

test('of the addresses of a name only allowed ones are connected to', async (t) => {
  const store = await breakStore(t, ({ answer }) => answer(200))
  const { resolve } = resolverOf(['169.254.169.254', '::1', '127.0.0.1'])
  const outbound = outboundOf(t, { resolve })
  assert.equal(await get(outbound, renamed(store.url, 'store.example.net')), 200)
})

test('a name whose address changes is checked again, and resolved once, for each connection', async (t) => {
  const store = await breakStore(t, ({ answer, socket }) => {
    answer(200, { connection: 'close' })
    socket.end()
  })
  const { resolve, asked } = resolverOf(['127.0.0.1'], ['169.254.169.254'])
  const outbound = outboundOf(t, { resolve })
  assert.equal(await get(outbound, renamed(store.url, 'store.example.net')), 200)
  assert.equal(asked(), 1)
  assert.match(await refusalOf(outbound, renamed(store.url, 'store.example.net')), /a link-local address/)
  assert.equal(asked(), 2)
  assert.equal(store.connections(), 1)
})

test('a kept connection is checked again, and nothing is sent over one that is now refused', async (t) => {
  const store = await breakStore(t, ({ answer }) => answer(200))
  const allowedNetworks = ['127.0.0.0/8']
  const { resolve, asked } = resolverOf(['127.0.0.1'])
  const outbound = outboundOf(t, { policy: { ...HERE, allowedNetworks }, resolve })
  const url = renamed(store.url, 'store.example.net')
  assert.deepEqual([await get(outbound, url), await get(outbound, url)], [200, 200])
  // This simulates that a VM gets the address.
  allowedNetworks.pop()
  assert.match(await refusalOf(outbound, url), /a loopback address/)
  assert.deepEqual([store.connections(), store.heads.length, asked()], [1, 2, 1])
})

test('a redirect is checked like a first URL, and bounded', async (t) => {
  const targets = new Map([
    ['/link-local', 'http://169.254.169.254/latest/meta-data'],
    ['/scheme', 'file:///etc/passwd'],
    ['/nowhere', 'http://['],
    ['/circle', `/circle?sig=${CANARY}`],
    ['/once', `/there?sig=${CANARY}`],
  ])
  const store = await breakStore(t, ({ head, answer }) => {
    const location = targets.get(/^GET (\/[a-z-]+)/.exec(head)?.[1] ?? '')
    if (location === undefined) answer(200)
    else answer(302, { location })
  })
  const outbound = outboundOf(t)
  const from = (path: string): string => `${store.origin}${path}?sig=${CANARY}`
  assert.match(await refusalOf(outbound, from('/link-local')), /redirects to .* a link-local address/)
  assert.match(await refusalOf(outbound, from('/scheme')), /a scheme other than https:/)
  assert.match(await refusalOf(outbound, from('/nowhere')), /redirects to no URL/)
  assert.equal(await get(outbound, from('/once')), 200)
  const circle = await get(outbound, from('/circle'))
  assert.ok(circle instanceof OutboundFailure)
  assert.equal(circle.message, 'it redirects more than 5 times')
})

test('a configured private authority is trusted, and a redirect never leaves TLS', async (t) => {
  const nowMs = Date.now()
  const authority = await createAuthority('a store', nowMs)
  const leaf = { commonName: 'store', alternativeNames: ['127.0.0.1'], usages: ['server'] } as const
  const { certificate: cert, key } = await issueCertificate(authority, leaf, nowMs)
  const plain = await breakStore(t, ({ answer }) => answer(200))
  const redirect = { location: plain.url }
  const store = await breakStore(
    t,
    ({ head, answer }) => (head.includes('/away') ? answer(307, redirect) : answer(200)),
    { cert, key },
  )
  const stranger = await get(outboundOf(t), store.url)
  assert.ok(stranger instanceof OutboundFailure)
  assert.match(stranger.message, /extra_ca_file .*\((UNABLE_TO_|SELF_SIGNED_|DEPTH_ZERO_)[A-Z_]+\)$/)
  const outbound = outboundOf(t, { extraCa: [authority.certificate] })
  assert.equal(await get(outbound, store.url), 200)
  assert.match(await refusalOf(outbound, `${store.origin}/away?sig=${CANARY}`), /redirects away from https:/)
  assert.equal(plain.connections(), 0)
})

test('the authorities of the system are trusted', async (t) => {
  const nowMs = Date.now()
  const authority = await createAuthority('a company', nowMs)
  const leaf = { commonName: 'store', alternativeNames: ['127.0.0.1'], usages: ['server'] } as const
  const { certificate: cert, key } = await issueCertificate(authority, leaf, nowMs)
  const store = await breakStore(t, ({ answer }) => answer(200), { cert, key })
  const directory = mkdtempSync(join(tmpdir(), 'authorities-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const file = join(directory, 'all.pem')
  writeFileSync(file, authority.certificate)
  // Node reads the authorities of a system once, so a process of its own must find these (OpenSSL: SSL_CERT_FILE).
  const script = `
    const { Outbound } = await import(${JSON.stringify(new URL('outbound-request.ts', import.meta.url))})
    const url = new URL(${JSON.stringify(store.url)})
    const outbound = new Outbound({ policy: ${JSON.stringify(HERE)} })
    const { status } = await outbound.ask({ method: 'GET', url, signal: new AbortController().signal })
    console.log(status)
    process.exit()`
  const env = { SSL_CERT_FILE: file, SSL_CERT_DIR: join(directory, 'none') }
  const { stdout } = await run(process.execPath, ['--no-warnings', '--input-type=module', '--eval', script], {
    env,
  })
  assert.equal(stdout, '200\n')
})

test('a kept connection that the other end closed is replaced by a new one, without a failure', async (t) => {
  const store = await breakStore(t, ({ index, socket, answer }) => {
    if (index === 1) socket.destroy()
    else answer(200)
  })
  const outbound = outboundOf(t)
  assert.equal(await get(outbound, store.url), 200)
  assert.equal(await get(outbound, store.url), 200)
  assert.equal(store.connections(), 2)
})

test('an abort ends a request with its reason, and its connection', async (t) => {
  const reason = new Error('no longer wanted')
  const controller = new AbortController()
  const closed = Promise.withResolvers<void>()
  const store = await breakStore(t, ({ socket }) => {
    socket.once('close', () => closed.resolve()).resume()
    controller.abort(reason)
  })
  const { signal } = controller
  await assert.rejects(outboundOf(t).ask({ method: 'GET', url: new URL(store.url), signal }), reason)
  await closed.promise
  assert.equal(store.heads.length, 1)
})

test('the error for an unreachable host or an unusable URL does not contain the URL', async (t) => {
  const missing: Resolve = (_, answer) =>
    answer(Object.assign(new Error(`getaddrinfo ${CANARY}`), { code: 'ENOTFOUND', hostname: CANARY }), [])
  const notFound = await get(outboundOf(t, { resolve: missing }), `http://store.example.net/${CANARY}`)
  assert.equal(
    (notFound as OutboundFailure).message,
    'the name store.example.net has no address; check the URL, and DNS on this host (ENOTFOUND)',
  )
  const refused = await get(outboundOf(t), `http://127.0.0.1:1/${CANARY}?sig=${CANARY}`)
  assert.equal(
    (refused as OutboundFailure).message,
    'nothing listens at 127.0.0.1:1; check the URL, and whether that server runs (ECONNREFUSED)',
  )
  const useless = await refusalOf(outboundOf(t), `http://%ff${CANARY}:${CANARY}@127.0.0.1/`)
  assert.equal(useless, 'its URL cannot be used')
})

test('if the addresses of this host cannot be read, a request has no answer, and the daemon goes on', async (t) => {
  const outbound = outboundOf(t, {
    resolve: (_, answer) => void setImmediate(answer, null, [{ address: '203.0.113.9', family: 4 }]),
    ownAddresses: () => {
      throw Object.assign(new Error('too many open files'), { code: 'ERR_SYSTEM_ERROR' })
    },
  })
  for (const host of ['store.example.net', '203.0.113.9']) {
    const failure = await get(outbound, `https://${host}/`)
    assert.ok(failure instanceof OutboundFailure)
    assert.deepEqual(
      [failure.kind, failure.message],
      ['unreachable', `${host} gave no answer (ERR_SYSTEM_ERROR)`],
    )
  }
})
