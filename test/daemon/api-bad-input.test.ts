import assert from 'node:assert/strict'
import { connect as tlsConnect } from 'node:tls'
import { before, test } from 'node:test'
import { text as readText } from 'node:stream/consumers'
import { limits } from '../../src/config/limits.ts'
import { assertProblem, createBody, makePki, SHA, startControllerHost } from './support/controller-host.ts'
import { eventually } from './support/eventually.ts'
import type { Call, ControllerHost, Pki } from './support/controller-host.ts'

let pki: Pki
before(async () => {
  pki = await makePki()
})

type Findings = readonly (readonly [pointer: string, code: string, detail: RegExp])[]

async function refused(host: ControllerHost, call: Call, findings: Findings): Promise<void> {
  const problem = assertProblem(await host.call(call), 400, 'invalid_request')
  const { errors } = problem as { errors: { pointer: string; code: string; detail: string }[] }
  assert.deepEqual(
    errors.map(({ pointer, code }) => [pointer, code]),
    findings.map(([pointer, code]) => [pointer, code]),
  )
  for (const [index, [, , detail]] of findings.entries()) assert.match(errors[index]?.detail ?? '', detail)
  assert.equal(problem.retryable, false)
}

const put = (body: unknown, path = '/v1/vms/web-1'): Call => ({ method: 'PUT', path, body })
const image = (url: string) => ({
  rootfs: { url, sha256: SHA },
  kernel: { url: 'https://x.example/k', sha256: SHA },
})
const compute = { cpu_millicores: 1500, memory_mib: 512, sleep_after_idle_seconds: 0 }

const bodies: readonly (readonly [string, unknown, Findings])[] = [
  ['a list', [], [['', 'wrong_type', /must be an object/]]],
  ['null', 'null', [['', 'wrong_type', /must be an object/]]],
  ['nothing', '', [['', 'wrong_type', /must be an object/]]],
  ['an unknown member', createBody({ colour: 1 }), [['/colour', 'unknown_member', /not known/]]],
  [
    'a misspelt member',
    createBody({ compute: { ...compute, memory_mb: 1 } }),
    [['/compute/memory_mb', 'unknown_member', /did you mean memory_mib/]],
  ],
  [
    '__proto__',
    `{"__proto__":{},${JSON.stringify(createBody()).slice(1)}`,
    [['/__proto__', 'unknown_member', /not known/]],
  ],
  ['a missing member', createBody({ disk: undefined }), [['/disk', 'missing', /is missing/]]],
  [
    'too little CPU',
    createBody({ compute: { ...compute, cpu_millicores: 99 } }),
    [['/compute/cpu_millicores', 'out_of_range', /between 100 and 32000/]],
  ],
  [
    'too much CPU',
    createBody({ compute: { ...compute, cpu_millicores: 32_001 } }),
    [['/compute/cpu_millicores', 'out_of_range', /between 100 and 32000/]],
  ],
  [
    'a fraction',
    createBody({ compute: { ...compute, memory_mib: 512.5 } }),
    [['/compute/memory_mib', 'wrong_type', /whole number/]],
  ],
  [
    'a number as text',
    createBody({ compute: { ...compute, memory_mib: '512' } }),
    [['/compute/memory_mib', 'wrong_type', /whole number/]],
  ],
  [
    'a number beyond doubles',
    '{"power":"running","compute":{"cpu_millicores":1e999,"memory_mib":512,"sleep_after_idle_seconds":0},"disk":{"size_mib":1},"image":{"rootfs":{"url":"https://x.example/","sha256":"' +
      SHA +
      '"},"kernel":{"url":"https://x.example/","sha256":"' +
      SHA +
      '"}}}',
    [['/compute/cpu_millicores', 'wrong_type', /whole number/]],
  ],
  ['an unknown power', createBody({ power: 'off' }), [['/power', 'not_allowed', /running, stopped, paused/]]],
  [
    'several faults at once',
    createBody({ power: 'off', disk: { size_mib: 0 } }),
    [
      ['/power', 'not_allowed', /one of/],
      ['/disk/size_mib', 'out_of_range', /between 1 and/],
    ],
  ],
  [
    'a digest in upper case',
    createBody({
      image: {
        ...image('https://x.example/'),
        initrd: { url: 'https://x.example/', sha256: 'A'.repeat(64) },
      },
    }),
    [['/image/initrd/sha256', 'malformed', /64 lower-case hexadecimal/]],
  ],
  [
    'an FTP URL',
    createBody({ image: image('ftp://x.example/') }),
    [['/image/rootfs/url', 'malformed', /https:/]],
  ],
  [
    'a URL that is none',
    createBody({ image: image('https://') }),
    [['/image/rootfs/url', 'malformed', /URL/]],
  ],
  [
    'a URL with a host that is too long',
    createBody({ image: image(`https://${'a-'.repeat(150)}.example/`) }),
    [['/image/rootfs/url', 'malformed', /host of at most 253 characters/]],
  ],
  [
    'a URL with a password',
    createBody({ image: image('https://me:CANARY@x.example/') }),
    [['/image/rootfs/url', 'malformed', /user name or password/]],
  ],
  [
    'kernel arguments on two lines',
    createBody({ image: { ...image('https://x.example/'), kernel_arguments: 'a\nb' } }),
    [['/image/kernel_arguments', 'malformed', /one line/]],
  ],
  [
    'an address with leading zeros',
    createBody({ network: { ipv4_address: '192.000.2.1' } }),
    [['/network/ipv4_address', 'malformed', /must be an IPv4 address/]],
  ],
  [
    'an address with a prefix',
    createBody({ network: { ipv6_address: '2001:db8::1/64' } }),
    [['/network/ipv6_address', 'malformed', /must be an IPv6 address/]],
  ],
  [
    'addresses that no guest may have',
    createBody({ network: { ipv4_address: '169.254.0.1', ipv6_address: 'fe80::1' } }),
    [
      ['/network/ipv4_address', 'not_allowed', /link-local/],
      ['/network/ipv6_address', 'not_allowed', /link-local/],
    ],
  ],
  [
    'a prefix without its length',
    createBody({ network: { ipv6_prefix: '2001:db8:1::' } }),
    [['/network/ipv6_prefix', 'malformed', /network in CIDR form/]],
  ],
  [
    'a prefix that no guest may have',
    createBody({ network: { ipv6_prefix: 'fe80::/64' } }),
    [['/network/ipv6_prefix', 'not_allowed', /overlaps link-local/]],
  ],
  [
    'a multicast MAC address',
    createBody({ network: { mac_address: '01:00:5e:00:00:01' } }),
    [['/network/mac_address', 'malformed', /unicast/]],
  ],
  [
    'half a surrogate pair',
    '{"user_data":"\\ud800",' + JSON.stringify(createBody()).slice(1),
    [['/user_data', 'malformed', /UTF-8/]],
  ],
  [
    'user data of too many bytes in few characters',
    createBody({ user_data: 'ü'.repeat(limits.userDataBytesMax / 2 + 1) }),
    [['/user_data', 'wrong_length', /at most 262144 bytes/]],
  ],
  [
    'a key on two lines',
    createBody({ ssh_authorized_keys: ['ssh-ed25519 AAAAB', 'ssh-ed25519 AAAA\nssh-ed25519 AAAA'] }),
    [['/ssh_authorized_keys/1', 'malformed', /one line/]],
  ],
  [
    'what is not a public key',
    createBody({
      ssh_authorized_keys: ['PRETTY_NAME="Debian GNU/Linux 13"', '-----BEGIN OPENSSH PRIVATE KEY-----'],
    }),
    [
      ['/ssh_authorized_keys/0', 'malformed', /public SSH key/],
      ['/ssh_authorized_keys/1', 'malformed', /public SSH key/],
    ],
  ],
  [
    'too many keys',
    createBody({ ssh_authorized_keys: Array.from({ length: 65 }, () => 'ssh-ed25519 AAAA') }),
    [['/ssh_authorized_keys', 'wrong_length', /at most 64 items/]],
  ],
]

test('a create request is refused, with a pointer to each fault and the fault in words, for', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const [name, body, findings] of bodies) {
    await t.test(name, async () => refused(host, put(body), findings))
  }
  assert.equal(host.store.vms.ids().length, 0)
  assert.ok(!host.logLines.join('').includes('CANARY'))
})

test('public keys of every kind are accepted, with options before them and a comment after them', async (t) => {
  const host = await startControllerHost(t, pki)
  const keys = [
    'ssh-rsa AAAAB3NzaC1yc2E=',
    'ecdsa-sha2-nistp256 AAAAE2VjZHNh== me at home',
    'sk-ssh-ed25519@openssh.com AAAAGnNrLXNzaA==',
    'from="192.0.2.0/24",command="echo a b",no-pty ssh-ed25519 AAAAC3Nz me@host',
  ]
  const { status, json } = await host.call(put(createBody({ ssh_authorized_keys: keys })))
  assert.equal(status, 202, JSON.stringify(json))
})

test('a power request is refused for an unknown state, a missing one and an extra member', async (t) => {
  const host = await startControllerHost(t, pki)
  const power = (body: unknown): Call => put(body, '/v1/vms/web-1/power')
  await refused(host, power({ state: 'sleeping' }), [['/state', 'not_allowed', /one of running/]])
  await refused(host, power({}), [['/state', 'missing', /is missing/]])
  await refused(host, power({ state: 'running', force: true }), [['/force', 'unknown_member', /not known/]])
  const twice = String.raw`{"state":"running","\u0073tate":"stopped"}`
  await refused(host, power(twice), [['/state', 'not_allowed', /is given more than once/]])
  const secret = power('{"CANARY secret":1,"CANARY secret":2}')
  await refused(host, secret, [['/…', 'not_allowed', /is given more than once/]])
})

test('a change of a part is refused for what is wrong with the part', async (t) => {
  const host = await startControllerHost(t, pki)
  const initrd = { url: 'https://x.example/', sha256: 'bad' }
  await refused(host, put({ initrd }, '/v1/vms/web-1/boot'), [
    ['/initrd/sha256', 'malformed', /64 lower-case hexadecimal/],
  ])
  await refused(host, put({ check: { protocol: 'tcp', port: 80, host: 'x' } }, '/v1/vms/web-1/readiness'), [
    ['/check/host', 'unknown_member', /not known/],
  ])
  await refused(host, put({ user_data: 1 }, '/v1/vms/web-1/seed'), [
    ['/user_data', 'wrong_type', /must be a string or null/],
  ])
  const labels = Object.fromEntries(Array.from({ length: limits.labelsMax + 1 }, (_, n) => [`key-${n}`, 'a']))
  await refused(host, put({ labels, protected: false }, '/v1/vms/web-1/metadata'), [
    ['/labels', 'wrong_length', /at most 64 members/],
  ])
})

test('a body that is not there is refused, with the words of what to send if every member may be left out', async (t) => {
  const host = await startControllerHost(t, pki)
  await host.call(put(createBody()))
  const findings = (detail: RegExp): Findings => [['', 'wrong_type', detail]]
  const reboot: Call = { method: 'POST', path: '/v1/vms/web-1/reboot' }
  await refused(host, reboot, findings(/^must be an object: without a member, send \{\}$/))
  await refused(host, { ...reboot, path: '/v1/vms/web-1/rebuild' }, findings(/^must be an object$/))
})

test('an id that breaks the rule is refused on every route, however long', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const id of [
    '',
    'Web',
    '-a',
    'a-',
    'a_b',
    'a.b',
    'x'.repeat(64),
    'x'.repeat(5000),
    '%20',
    '%2e%2e',
    'ä'.normalize(),
  ]) {
    const path = `/v1/vms/${encodeURI(decodeURI(id))}`
    const findings: Findings = [['/id', 'malformed', /1 to 63 lower-case/]]
    await refused(host, { path }, findings)
    await refused(host, { method: 'DELETE', path }, findings)
    await refused(host, put(createBody(), path), findings)
    await refused(host, put({ state: 'running' }, `${path}/power`), findings)
  }
})

test('a query is refused for unknown and repeated parameters, wrong numbers, states, labels and cursors', async (t) => {
  const host = await startControllerHost(t, pki)
  const cases: readonly (readonly [string, Findings])[] = [
    ['?limit=0', [['/limit', 'out_of_range', /between 1 and 1000/]]],
    ['?limit=1001', [['/limit', 'out_of_range', /between 1 and 1000/]]],
    ['?limit=ten', [['/limit', 'wrong_type', /whole number/]]],
    ['?limit=1e2', [['/limit', 'wrong_type', /whole number/]]],
    ['?limit=-1', [['/limit', 'out_of_range', /between 1 and 1000/]]],
    ['?limit=1&limit=2', [['/limit', 'not_allowed', /^is given more than once$/]]],
    ['?limit=1&limit=2&page=2', [['/limit', 'not_allowed', /^is given more than once$/]]],
    ['?changed_after=-1', [['/changed_after', 'out_of_range', /^must be at least 0$/]]],
    ['?changed_after=9007199254740992', [['/changed_after', 'out_of_range', /at most 9007199254740991/]]],
    ['?state=on', [['/state', 'not_allowed', /one of pending/]]],
    [
      `?label=${Array.from({ length: limits.labelsMax + 1 }, (_, n) => `key-${n}=a`).join(',')}`,
      [['/label', 'wrong_length', /at most 64 labels/]],
    ],
    ['?cursor=a.b', [['/cursor', 'malformed', /next_cursor/]]],
    ['?cursor=YWJj', [['/cursor', 'malformed', /next_cursor/]]],
    ['?page=2', [['/page', 'unknown_member', /not known/]]],
  ]
  for (const [query, findings] of cases) await refused(host, { path: `/v1/vms${query}` }, findings)
  await refused(host, put(createBody(), '/v1/vms/web-1?dryrun=true'), [
    ['/dryrun', 'unknown_member', /did you mean dry_run/],
  ])
  assert.equal(host.store.vms.ids().length, 0)
})

test('a body that is not one JSON text in UTF-8 is refused, and not quoted', async (t) => {
  const host = await startControllerHost(t, pki)
  const latin1 = Buffer.from('{"power": "CANARY\xe4"}', 'latin1')
  for (const body of ['{', '{"power": CANARY}', '{} {}', "{'power': 1}", '{"a":1,}', latin1]) {
    const answer = await host.call(put(body))
    const { detail } = assertProblem(answer, 400, 'invalid_request')
    assert.equal(detail, 'the body is not valid JSON in UTF-8')
    assert.ok(!answer.text.includes('CANARY'))
  }
})

test('a body of another type or encoding is 415', async (t) => {
  const host = await startControllerHost(t, pki)
  const types = ['text/plain', 'application/x-www-form-urlencoded', 'application/problem+json', 'nonsense']
  for (const type of types) {
    assertProblem(
      await host.call({ ...put(createBody()), headers: { 'content-type': type } }),
      415,
      'unsupported_media_type',
    )
  }
  const gzip = { ...put(createBody()), headers: { 'content-encoding': 'gzip' } }
  assertProblem(await host.call(gzip), 415, 'unsupported_media_type')
})

test('a body of 1 MiB is read, one byte more is 413', async (t) => {
  const host = await startControllerHost(t, pki)
  const padded = (length: number): string => JSON.stringify(createBody()).padEnd(length)
  assert.equal((await host.call(put(padded(limits.bodyBytesMax)))).status, 202)
  assertProblem(await host.call(put(padded(limits.bodyBytesMax + 1))), 413, 'body_too_large')
  const chunked = { ...put(padded(limits.bodyBytesMax + 1)), headers: { 'transfer-encoding': 'chunked' } }
  assertProblem(await host.call(chunked), 413, 'body_too_large')
})

test('an unknown route is 404, and a wrong method on a known one 405 with Allow, before the body is read', async (t) => {
  const host = await startControllerHost(t, pki)
  for (const path of ['/v1', '/v1/vms/web-1/', '/v2/vms', '/v1/vms/web-1/console', '//v1/vms']) {
    assertProblem(await host.call({ path }), 404, 'not_found')
  }
  const text = { body: 'x', headers: { 'content-type': 'text/plain' } }
  const vm = await host.call({ method: 'POST', path: '/v1/vms/web-1', ...text })
  assertProblem(vm, 405, 'method_not_allowed')
  assert.equal(vm.headers.allow, 'DELETE, GET, HEAD, PUT')
  const power = await host.call({ path: '/v1/vms/web-1/power' })
  assertProblem(power, 405, 'method_not_allowed')
  assert.equal(power.headers.allow, 'PUT')
  const oneImage = await host.call({ path: `/v1/images/${'a'.repeat(64)}` })
  assertProblem(oneImage, 405, 'method_not_allowed')
  assert.equal(oneImage.headers.allow, 'DELETE')
  assertProblem(await host.call({ method: 'PROPFIND', path: '/healthz' }), 405, 'method_not_allowed')
})

test('a path that is not validly percent-encoded is 400', async (t) => {
  const host = await startControllerHost(t, pki)
  assertProblem(await host.call({ path: '/v1/vms/%zz' }), 400, 'invalid_request')
  assertProblem(await host.call({ path: '/v1/vms/%ff' }), 400, 'invalid_request')
  await eventually(() => host.logLines.length === 2)
})

test('headers that are too large are 431, bytes that are not HTTP are 400, and both are problems', async (t) => {
  const host = await startControllerHost(t, pki)
  const large = await host.call({
    path: '/healthz',
    headers: { 'x-filler': 'x'.repeat(limits.headerBytesMax) },
  })
  assertProblem(large, 431, 'headers_too_large')

  const { authority, controller } = pki
  const socket = tlsConnect({
    host: '127.0.0.1',
    port: host.port,
    ca: authority.certificate,
    cert: controller.certificate,
    key: controller.key,
  })
  socket.end('this is not HTTP\r\n\r\n')
  const answer = await readText(socket)
  assert.match(answer, /^HTTP\/1\.1 400 /)
  assert.equal(JSON.parse(answer.split('\r\n\r\n')[1] ?? '').code, 'invalid_request')
})

test('an exception in a handler is answered as a bug without its message, and logged with its stack', async (t) => {
  const host = await startControllerHost(t, pki)
  host.waitingFor = null as never
  const answer = await host.call({ path: '/readyz' })
  assertProblem(answer, 500, 'internal')
  assert.doesNotMatch(answer.text, /null|TypeError/)
  await eventually(() => host.logLines.length === 2)
  const [bug, access] = host.logLines.map((line) => JSON.parse(line))
  assert.deepEqual([bug.level, access.level], ['error', 'error'])
  assert.equal(bug.request_id, answer.headers['x-request-id'])
  assert.match(bug.error.stack[0], /health\.ts/)
})
