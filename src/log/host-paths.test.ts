import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withoutHostPaths } from './host-paths.ts'

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
