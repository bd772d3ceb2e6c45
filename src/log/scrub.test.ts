import assert from 'node:assert/strict'
import { test } from 'node:test'
import { newOperationId } from './log.ts'
import { scrub, scrubLine, withoutHostPaths } from './scrub.ts'

const cases: readonly (readonly [string, string])[] = [
  ['https://s3.example/b/k?X-Amz-Signature=abc', 'https://s3.example/b/k?[redacted]'],
  ['get "https://s3.example/k?sv=1&sig=abc" failed', 'get "https://s3.example/k?[redacted]" failed'],
  ['https://me:secret@example.net/k', 'https://example.net/k'],
  ['https://example.net/k#access', 'https://example.net/k#[redacted]'],
  ['HTTPS://EXAMPLE.NET/K?A=B next', 'HTTPS://EXAMPLE.NET/K?[redacted] next'],
  ['https://[2001:db8::1]:8443/k?t=1', 'https://[2001:db8::1]:8443/k?[redacted]'],
  ['the part after k&X-Amz-Signature=abc&x=1', 'the part after k&X-Amz-Signature=[redacted]&x=1'],
  ['url=https%3A%2F%2Fs%2F%3FX-Amz-Signature%3Dabc', 'url=https%3A%2F%2Fs%2F%3FX-Amz-Signature%3D[redacted]'],
  ['temp_url_sig=abc&temp_url_expires=1', 'temp_url_sig=[redacted]&temp_url_expires=1'],
  ['authorization: Bearer abcdefgh.ijkl', 'authorization: Bearer [redacted]'],
  ['X-Auth-Token: abc', 'X-Auth-Token: [redacted]'],
  ['auth_token=abc', 'auth_token=[redacted]'],
  ['my_auth_token=abc', 'my_auth_token=[redacted]'],
  ['db_password=abc', 'db_password=[redacted]'],
  [`${'a-'.repeat(5000)}signature=abc`, `${'a-'.repeat(5000)}signature=[redacted]`],
  ['x-amz-security-token: abc', 'x-amz-security-token: [redacted]'],
  ['Cookie: session=abc', 'Cookie: [redacted]'],
  ['tok\u0000en=abc', 'token=[redacted]'],
  ['token=ab\u200bcd', 'token=[redacted]'],
  ['X-Amz-Sig\u001b\u0007nature=abc', 'X-Amz-Signature=[redacted]'],
  ['-----BEGIN EC PRIVATE KEY-----MIGH-----END EC PRIVATE KEY----- done', '[redacted] done'],
  ['-----BEGIN EC PRIVATE KEY-----MIGH, and the text was cut', '[redacted]'],
  ['network.ensure-tap: web-1 has no tap', 'network.ensure-tap: web-1 has no tap'],
  ['exit status 1: unit=vmhost-web-1.service', 'exit status 1: unit=vmhost-web-1.service'],
  ['https://example.net/images/root.img', 'https://example.net/images/root.img'],
]

for (const [text, expected] of cases) {
  test(`scrubbing ${JSON.stringify(text)} leaves ${JSON.stringify(expected)}`, () => {
    assert.equal(scrub(text), expected)
  })
}

const HOSTILE_BYTES = 64 * 1024
/**
 * A hundred times what the texts below need; a pattern that looks at each word again from each of its parts takes
 * seconds.
 */
const CPU_MS_MAX = 2000

for (const unit of [
  'a-',
  'x-',
  '_a',
  'a.',
  'token',
  'cookie: ',
  ' ',
  'ab://',
  '-----BEGIN ',
  '"token":[',
  '\\u00',
]) {
  test(`the time to scrub ${JSON.stringify(unit)} again and again grows with its length alone`, () => {
    const before = process.cpuUsage()
    for (const start of ['', 'https://', '-----BEGIN PRIVATE KEY-----'])
      for (const scrubbed of [scrub, scrubLine]) scrubbed(start + unit.repeat(HOSTILE_BYTES / unit.length))
    const { user, system } = process.cpuUsage(before)
    assert.ok((user + system) / 1000 < CPU_MS_MAX, `it took ${(user + system) / 1000} ms`)
  })
}

test('a control character that JSON escaped cannot split a secret either', () => {
  const line = `${JSON.stringify({ a: 'token=ab\u0000cd\nef', path: 'C:\\new' })}\n`
  assert.deepEqual(JSON.parse(scrubLine(line)), { a: 'token=[redacted]', path: 'C:\\new' })
})

test('a line stays valid JSON whatever strings are in it', () => {
  for (const text of [
    '\\',
    '\\\\n',
    '"',
    '\\"token=x',
    'https://x/?a=\\"',
    '-----BEGIN PRIVATE KEY-----"x',
    '\ud800',
  ]) {
    const line = `${JSON.stringify({ text, user_data: text, after: 1 })}\n`
    assert.equal(JSON.parse(scrubLine(line)).after, 1, text)
  }
})

test('operation ids are unique and sort by time', () => {
  const ids = [1, 255, 256, 1_800_000_000_000].map((nowMs) => newOperationId(nowMs))
  assert.deepEqual(ids.toSorted(), ids)
  assert.notEqual(newOperationId(5), newOperationId(5))
  for (const id of ids) assert.match(id, /^op-[0-9a-f]{24}$/)
})

/** Pairs of a text and its expected rest. */
const hidden: readonly (readonly [string, string])[] = [
  [
    "ENOSPC: no space left on device, open '/run/vmhostd/console/web-1'",
    "ENOSPC: no space left on device, open '[path]'",
  ],
  ["ENOENT, open '/srv/my pool/vm 1/disk.raw' failed", "ENOENT, open '[path]' failed"],
  ["link '/srv/a' -> '/srv/b'", "link '[path]' -> '[path]'"],
  ['Could not open "/dev/kvm": Permission denied', 'Could not open "[path]": Permission denied'],
  ['Could not open `/dev/kvm`', 'Could not open `[path]`'],
  ['connect ENOENT /run/systemd/private', 'connect ENOENT [path]'],
  ['spawn /opt/qemu/bin/qemu-system-x86_64 ENOENT', 'spawn [path] ENOENT'],
  ['the program ended (/usr/bin/qemu-system-x86_64)', 'the program ended ([path])'],
  ['/srv/pool: it is not there.', '[path]: it is not there.'],
  ['it lies in /srv/pool.', 'it lies in [path].'],
  ['-drive file=/srv/pool/disk.raw,format=raw', '-drive file=[path]'],
  ['unix:///run/vm/web-1/qmp.sock', 'unix:[path]'],
  ['file:///srv/images/root.img is missing', 'file:[path] is missing'],
  ['file:/srv/images/root.img', 'file:[path]'],
  ['{"path":"/run/vm/x"}', '{"path":"[path]"}'],
  ['//srv//pool/x', '[path]'],
  ['/a', '[path]'],
  ['open /v1-data/disk.raw and /docs.old/x', 'open [path] and [path]'],
  ["open '/srv/an-unclosed one", "open '[path] one"],
]

/** Texts with slashes but without a path of the host. */
const kept: readonly string[] = [
  'GET https://store.example/bucket/key: 403',
  'asking http://192.0.2.7:9000/b: refused',
  '203.0.113.7 is not in 192.0.2.0/24 or 2001:db8::/32, the ranges for guests',
  'link-local (fe80::/10), where the gateway of every guest is',
  'all of ::/0',
  'send the body as application/json',
  'the store answered 403 <Error><Code>AccessDenied</Code></Error>',
  'the host key SHA256:uNiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE, not the one it had',
  'the host key SHA256:/NiVztksCsDhcc0u9e8BrSJ5/HQWNwW1Vp5oRDHbFcE',
  'set "protected" to false in PUT /v1/vms/web-1/metadata, then delete it',
  'there is no such route; see /docs',
  'part_urls/0: it names a loopback address',
  '1 / 2 of n/a, and/or 5 MiB/s',
  'network.ensure-tap: there is no device vmt600000',
]

for (const [text, expected] of hidden) {
  test(`no path of the host is left of ${JSON.stringify(text)}`, () => {
    assert.equal(withoutHostPaths(text), expected)
  })
}

for (const text of kept) {
  test(`nothing is taken out of ${JSON.stringify(text)}`, () => {
    assert.equal(withoutHostPaths(text), text)
  })
}

test('a JSON pointer stays in a text that is about it', () => {
  const text = 'the body is not valid: /compute/cpu_millicores must be between 100 and 32000 (and 1 more)'
  assert.equal(withoutHostPaths(text, ['/compute/cpu_millicores']), text)
  assert.equal(withoutHostPaths('/compute/cpu: no', ['/compute/cpu']), '/compute/cpu: no')
})

test('hostile text of a megabyte takes no more than linear time', () => {
  const length = 1 << 20
  for (const unit of ['/', "'/", '"/x', "'/'", ' /', ':/', '/:', 'https://', 'SHA256:', '/1', '/a ']) {
    const text = unit.repeat(length / unit.length)
    const began = performance.now()
    withoutHostPaths(text)
    const tookMs = performance.now() - began
    assert.ok(tookMs < 2000, `${JSON.stringify(unit)} took ${tookMs} ms`)
  }
})
