import assert from 'node:assert/strict'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer as createHttpsServer } from 'node:https'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { before, test } from 'node:test'
import { createAuthority, issueCertificate } from '../../src/daemon/setup/certificates.ts'
import { COMMON_NAME, makePki, SHA } from '../daemon/support/controller-host.ts'
import { ctl, startCtlStage, writeProfile } from './support/ctl-stage.ts'
import type { AddressInfo } from 'node:net'
import type { TestContext } from 'node:test'
import type { Pki } from '../daemon/support/controller-host.ts'
import type { ProfileFiles, Ran } from './support/ctl-stage.ts'

/** User that cannot read root's files. */
const NOBODY = 65_534

let pki: Pki
before(async () => {
  pki = await makePki()
})

const IMAGES = `--rootfs https://i.example/root#sha256=${SHA} --kernel https://i.example/vmlinux#sha256=${SHA}`

test('a wrong command line gives status 2, suggests the intended word and shows where the help is', async () => {
  const cases: readonly (readonly [line: string, says: RegExp])[] = [
    [
      'frob',
      /unknown command 'frob'\n {2}there are vm, console, snapshot, image, sync, host, events, completion, version/,
    ],
    ['vm lss', /unknown command 'lss'\n {2}did you mean vmhostctl vm ls\?/],
    ['vm ls --jsn', /unknown option '--jsn'\n {2}did you mean --json\?\n {2}see vmhostctl vm ls --help/],
    ['vm ls extra', /too many arguments for 'ls'. Expected 0 arguments but got 1: extra\n/],
    ['vm get', /missing required argument 'NAME'\n {2}see vmhostctl vm get --help/],
    ['vm get a b', /Expected 1 argument but got 2: a, b/],
    ['vm wait', /missing required argument 'NAME'/],
    ['vm wait a --timeout', /--timeout.* argument missing/],
    ['vm wait a --timeout soon', /--timeout soon is not a time\n {2}write 90, 90s, 10m or 2h/],
    ['vm wait a --timeout 25d', /--timeout 25d is longer than a wait can be\n {2}write at most 24d/],
    ['vm keep-awake a 36501d', /TIME 36501d is longer than a time can be\n {2}write at most 36500d/],
    ['vm migrate a --to b --expires 99999999d', /--expires 99999999d is longer than a time can be/],
    ['host drain --timeout 577h', /--timeout 577h is longer than a wait can be/],
    ['vm resize a --memory lots', /--memory lots is not a size in whole MiB/],
    ['vm resize a --cpu 1.2345', /--cpu 1.2345 is not a number of cores/],
    ['vm create a', /it needs --rootfs and --kernel, or --file/],
    ['vm create a --file /nowhere.json', /--file \/nowhere.json cannot be read: ENOENT/],
    ['vm create a --file - --user-data -', /only one of --file - and --user-data - can read standard input/],
    ['vm seed a --ssh-key - --ssh-key -', /only one of --ssh-key - and --ssh-key - can read standard input/],
    ['vm create a --kernel https://i.example/vmlinux', /--kernel needs the digest/],
    ['vm create a --kernel https://i.example/k#v2', /--kernel: what follows # is not sha256=DIGEST/],
    ['vm create a --kernel ftp://i.example/k', /an image cannot be fetched by ftp:/],
    ['vm create a --kernel /nowhere', /the image cannot be read to compute its digest: ENOENT/],
    [
      `vm create a ${IMAGES} --power on`,
      /'--power <STATE>' argument 'on' is invalid. Allowed choices are running, stopped, paused/,
    ],
    [`vm create a ${IMAGES} --label env`, /--label env is not KEY=VALUE/],
    ['vm ls --state fine', /argument 'fine' is invalid. Allowed choices are pending, starting/],
    ['vm stop a --wait --timeout soon', /--timeout soon is not a time/],
    ['vm stop a --timeout 2m', /--timeout has no effect without --wait\n {2}see vmhostctl vm stop --help/],
    ['snapshot urls a --fail-on-error', /--fail-on-error has no effect without --wait/],
    ['host drain --label a=b', /--label has no effect without --to/],
    ['vm ls --label env', /--label env is not KEY=VALUE/],
    ['completion tcsh', /'tcsh' is invalid for argument 'SHELL'. Allowed choices are bash, zsh, fish/],
  ]
  // This must be found without the daemon: the profile here cannot be read.
  for (const [line, says] of cases) {
    const { status, out, err } = await ctl(line.split(' '))
    const needsProfile = /there is no profile/.test(err)
    assert.ok(!needsProfile, `${line}: it looked for a profile first`)
    assert.deepEqual({ line, status, out }, { line, status: 2, out: '' }, err)
    assert.match(err, says, line)
  }
})

test('no message repeats what grants access in a URL of the command line', async (t) => {
  const stage = await startCtlStage(t, pki)
  const signed = 'b.example/o?X-Amz-Signature=CANARY'
  for (const line of [
    `vm https://${signed}`,
    `vm rebuild web-1 https://${signed}#sha256=${SHA} x`,
    `vm create web-1 https://${signed}`,
    `vm create web-1 --rootf=https://${signed}`,
    `vm create web-1 ${IMAGES} --power https://${signed}`,
    // These are taken for files.
    `vm create web-1 ${IMAGES} --rootfs ${signed}`,
    `vm create web-1 ${IMAGES} --rootfs https:/${signed}`,
    `snapshot create nightly-1 --vm web-1 --upload https://${signed}`,
    // These reach the daemon.
    `vm get https://${signed}`,
    `vm create https://${signed} ${IMAGES}`,
    `vm create web-1 ${IMAGES} --kernel-arguments https://${signed}\u00e9${'x'.repeat(3000)}`,
  ]) {
    for (const form of ['', ' --json']) {
      const { status, out, err } = await stage.run(line + form)
      assert.ok([1, 2, 4].includes(status), `${line}: ${status}`)
      assert.doesNotMatch(out + err, /CANARY/, line)
    }
  }
  const { err } = await stage.run(`vm create web-1 https://${signed}`)
  assert.match(err, /Expected 1 argument but got 2: web-1, https:\/\/b\.example\/o\?\[redacted\]\n {2}see/)
  assert.match((await stage.run('vm get web-9')).err, /\/docs\/errors#not_found/)
})

test('a missing profile is reported with the searched places and an example, with status 4', async () => {
  const { status, err } = await ctl(['vm', 'ls'])
  assert.equal(status, 4)
  assert.match(
    err,
    /there is no profile at \/nonexistent\/.config\/vmhostctl\/profile.toml or \/etc\/vmhostd\/vmhostctl.toml/,
  )
  assert.match(err, /"vmhostd setup" writes one/)
  assert.match(err, /url {2}= "https:\/\/host-1.example.net:9000"/)
})

test('the environment names the profile, an option overrides it, and the home directory is searched', async (t) => {
  const { profile } = await startCtlStage(t, pki)
  const environment = { VMHOSTCTL_PROFILE: profile }
  assert.equal((await ctl(['vm', 'ls'], { shell: { environment } })).status, 0)
  const refused = await ctl(['vm', 'ls', '--profile', '/nowhere'], { shell: { environment } })
  assert.equal(refused.status, 4)
  assert.match(refused.err, /the profile is not there: \/nowhere/)
  const configured = { XDG_CONFIG_HOME: dirname(dirname(profile)) }
  const none = await ctl(['vm', 'ls'], { shell: { environment: configured } })
  assert.match(
    none.err,
    new RegExp(`there is no profile at ${configured.XDG_CONFIG_HOME}/vmhostctl/profile.toml or`),
  )
  for (const XDG_CONFIG_HOME of ['', '.config', './elsewhere']) {
    const { err } = await ctl(['vm', 'ls'], { shell: { environment: { XDG_CONFIG_HOME } } })
    assert.match(err, /there is no profile at \/nonexistent\/.config\/vmhostctl\/profile.toml or/)
  }
})

test('an unusable profile is refused for each reason by name', async (t) => {
  const directory = mkdtempSync(join(tmpdir(), 'bad-profile-'))
  t.after(() => rmSync(directory, { recursive: true }))
  const good = 'ca = "ca.crt"\ncert = "c.crt"\nkey = "c.key"\n'
  for (const name of ['ca.crt', 'c.crt', 'c.key']) writeFileSync(join(directory, name), 'no certificate')
  const cases: readonly (readonly [text: string, says: RegExp])[] = [
    ['url = ', /profile.toml, line 1, column \d+: /],
    [`url = "https://h:1"\n${good}ulr = "x"\n`, /unknown key ulr; is it url\?/],
    [good, /profile.toml has no url, or it is not a string/],
    [`url = 7\n${good}`, /profile.toml has no url, or it is not a string/],
    [`url = "http://h:1"\n${good}`, /url is http:\/\/h:1, which is not an address of a daemon/],
    [`url = "h:9000"\n${good}`, /which is not an address of a daemon\n {2}write https:\/\//],
    [
      'url = "https://h:1"\nca = "nowhere.crt"\ncert = "c.crt"\nkey = "c.key"\n',
      /ca of .* is not there: .*nowhere.crt/,
    ],
    [
      `url = "https://h:1"\n${good}`,
      /the certificates of .*profile.toml cannot be used: .*\n {2}ca is .*ca.crt/,
    ],
  ]
  const path = join(directory, 'profile.toml')
  for (const [text, says] of cases) {
    writeFileSync(path, text)
    const { status, err } = await ctl(['vm', 'ls', '--profile', path])
    assert.equal(status, 4, text)
    assert.match(err, says, text)
  }
})

test('an unreadable key is reported with what to do', async (t) => {
  const profile = writeProfile(t, { pki, url: 'https://127.0.0.1:9' })
  chmodSync(dirname(profile), 0o755)
  for (const name of ['ca.crt', 'controller.crt', 'profile.toml'])
    chmodSync(join(dirname(profile), name), 0o644)
  chmodSync(join(dirname(profile), 'controller.key'), 0)
  const root = process.geteuid?.() === 0
  if (root) process.seteuid?.(NOBODY)
  try {
    const { status, err } = await ctl(['vm', 'ls', '--profile', profile])
    assert.equal(status, 4)
    assert.match(err, /cannot be read.*\n {2}run this as root, or get a copy of your own/)
  } finally {
    if (root) process.seteuid?.(0)
  }
})

test('a refusal of the daemon is status 1, in its words and with what to do next', async (t) => {
  const stage = await startCtlStage(t, pki)
  const missing = await stage.run('vm get web-9')
  assert.equal(missing.status, 1)
  assert.match(
    missing.err,
    /^vmhostctl: there is no VM web-9 on this host\n {2}vmhostctl vm ls shows the VMs there are\n {2}code not_found, request req-[0-9a-f]+/,
  )
  await stage.run(`vm create web-1 ${IMAGES} --protected`)
  const conflict = await stage.run(`vm create web-1 ${IMAGES} --memory 1G`)
  assert.equal(conflict.status, 1)
  assert.match(conflict.err, /vmhostctl vm get web-1 shows what is there/)
  const running = await stage.run('vm resize web-1 --memory 1G')
  assert.equal(running.status, 1)
  assert.match(running.err, /vmhostctl vm stop web-1 --wait, then run the command again/)
  assert.match(
    (await stage.run('vm rm web-1')).err,
    /vmhostctl vm set web-1 --protected no, then run the command again\n {2}code vm_protected/,
  )
  await stage.run('vm set web-1 --protected no')
  assert.match(
    (await stage.run('vm rm web-1 --source-lost')).err,
    /web-1 was not deleted: .*\n {2}vmhostctl vm get web-1 .*\n {2}code source_not_lost/,
  )
  const malformed = await stage.run(`vm create web-2 ${IMAGES} --memory 1 --cpu 99`)
  assert.equal(malformed.status, 1)
  assert.match(malformed.err, /\/compute\/cpu_millicores \(--cpu 99, in millicores\) must be .*32000/)
  assert.match(malformed.err, /\/compute\/memory_mib \(--memory 1, in MiB\) must be /)
  stage.host.capacity.total.memoryMib = 600
  const full = await stage.run(`vm create web-2 ${IMAGES}`)
  assert.equal(full.status, 1)
  assert.match(full.err, /vmhostctl sync shows what the host has left/)
  stage.host.storeIsOpen = false
  assert.match(
    (await stage.run('vm ls')).err,
    /the daemon has just started: run the command again in a moment/,
  )
})

test('for a program an error is one line of JSON on standard error, and standard output stays empty', async (t) => {
  const stage = await startCtlStage(t, pki)
  const { status, out, err } = await stage.run('vm get web-9 --json')
  assert.equal(status, 1)
  assert.equal(out, '')
  const { error } = JSON.parse(err)
  assert.equal(err.trimEnd().split('\n').length, 1)
  assert.equal(error.code, 'not_found')
  assert.equal(error.exit_status, 1)
  assert.equal(error.vm, 'web-9')
  assert.equal(error.problem.status, 404)
  assert.equal(JSON.parse((await ctl(['vm', 'lss', '--json'])).err).error.code, 'usage')
})

/** Returns how a listing through a profile ends. */
const through = (t: TestContext, files: Omit<ProfileFiles, 'pki'>): Promise<Ran> =>
  ctl(['vm', 'ls', '--profile', writeProfile(t, { pki, ...files })])

test('a refused connection is reported, with where to look', async (t) => {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  const { status, err } = await through(t, { url: `https://127.0.0.1:${port}` })
  assert.equal(status, 4)
  assert.match(err, new RegExp(`^vmhostctl: nothing listens at 127.0.0.1:${port}: connect ECONNREFUSED`))
  assert.match(err, /systemctl status vmhostd/)
})

test('a name without an address points to the profile', async (t) => {
  const { status, err } = await through(t, { url: 'https://nowhere.invalid:9000' })
  assert.equal(status, 4)
  assert.match(err, /the name in nowhere.invalid:9000 has no address/)
  assert.match(err, /is url in .*profile.toml right\?/)
})

test('a daemon of another authority is not trusted, and the message does not suggest to continue', async (t) => {
  const { host } = await startCtlStage(t, pki)
  const stranger = await createAuthority('another authority', Date.now())
  const { status, err } = await through(t, {
    url: `https://127.0.0.1:${host.port}`,
    ca: stranger.certificate,
  })
  assert.equal(status, 4)
  assert.match(err, /the certificate of 127.0.0.1:\d+ is not signed by our authority/)
  assert.match(err, /it must be the ca.crt of that host\n.*stop here/)
})

test('a daemon whose certificate is one of a client is reported with the usage that it must have', async (t) => {
  const { certificate: cert, key } = await pki.issue({ usages: ['client'] })
  const server = createHttpsServer({ cert, key }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { status, err } = await through(t, { url: `https://127.0.0.1:${port}` })
  assert.equal(status, 4)
  assert.match(err, /the certificate of 127.0.0.1:\d+ is not for a server: /)
  assert.match(err, /must have the usage serverAuth: .*\n.*stop here/)
})

test('a daemon whose certificate has another name is reported with the names it has', async (t) => {
  const server = await pki.issue({ alternativeNames: ['host-9.example.net'], usages: ['server'] })
  const stage = await startCtlStage(t, { ...pki, server })
  const { status, err } = await stage.run('vm ls')
  assert.equal(status, 4)
  assert.match(err, /the certificate of 127.0.0.1:\d+ is for another name: .*/)
  assert.match(err, /write one of those names into url .*\n.*vmhostd certificate renew --san NAME/)
})

test('a client certificate that the daemon does not accept is reported with its fault', async (t) => {
  const { host } = await startCtlStage(t, pki)
  const url = `https://127.0.0.1:${host.port}`
  const stranger = await createAuthority('another authority', Date.now())
  const leaf = { commonName: COMMON_NAME, alternativeNames: [], usages: ['client'] } as const
  const longAgo = Date.now() - 2000 * 86_400_000
  const cases = [
    [await issueCertificate(stranger, leaf, Date.now()), /controller.crt is not signed by .*ca.crt/],
    [await issueCertificate(pki.authority, leaf, longAgo), /controller.crt expired on /],
    [
      await pki.issue({ usages: ['server'] }),
      /controller.crt is not a client's: it lacks the usage clientAuth/,
    ],
  ] as const
  for (const [pair, says] of cases) {
    const { status, err } = await through(t, { url, pair })
    assert.equal(status, 4, err)
    assert.match(err, /^vmhostctl: 127.0.0.1:\d+ .*does not accept our certificate/)
    assert.match(err, says)
  }
})

test('a client certificate that one of several authorities signed is not reported as a stranger', async (t) => {
  const { host } = await startCtlStage(t, pki)
  const next = await createAuthority('vmhostd authority 2', Date.now())
  const { err } = await through(t, {
    url: `https://127.0.0.1:${host.port}`,
    ca: next.certificate + pki.authority.certificate,
    pair: await pki.issue({ usages: ['server'] }),
  })
  assert.match(err, /lacks the usage clientAuth/)
  assert.doesNotMatch(err, /is not signed by/)
})

test('a certificate with another common name is reported with the name it was issued for', async (t) => {
  const { host } = await startCtlStage(t, pki)
  const { status, err } = await through(t, {
    url: `https://127.0.0.1:${host.port}`,
    pair: await pki.issue({ commonName: 'somebody' }),
  })
  assert.equal(status, 1)
  assert.match(err, /controller.crt is for somebody; .*controller.common_name/)
})

test('a server without TLS, or with another protocol over it, is reported', async (t) => {
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.end('HTTP/1.1 400 Bad Request\r\n\r\n')
  }).listen(0, '127.0.0.1')
  t.after(() => server.close())
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const { status, err } = await through(t, { url: `https://127.0.0.1:${port}` })
  assert.equal(status, 4)
  assert.match(err, /does not speak TLS 1.3/)
})

test('a request whose answer is lost may be repeated, except one that would begin again', async (t) => {
  const { server } = pki
  const https = createHttpsServer({ cert: server.certificate, key: server.key }, (_request, response) => {
    response.writeHead(202, { 'content-length': 9 })
    response.write('{', () => response.destroy())
  }).listen(0, '127.0.0.1')
  await once(https, 'listening')
  t.after(() => https.close())
  const profile = writeProfile(t, {
    pki,
    url: `https://127.0.0.1:${(https.address() as AddressInfo).port}`,
  })
  const look = /the change may be stored.* vmhostctl events --vm web-1/
  for (const [line, says] of [
    ['vm stop web-1', /run the command again; that is safe/],
    ['vm reboot web-1', look],
    [`vm rebuild web-1 https://i.example/root#sha256=${SHA}`, look],
  ] as const) {
    const { status, err } = await ctl([...line.split(' '), '--profile', profile])
    assert.equal(status, 4, err)
    assert.match(err, says)
    if (says === look) assert.doesNotMatch(err, /again is safe/)
  }
})

test('a daemon that ends before its answer is not said to refuse a certificate without a fault', async (t) => {
  const { certificate: cert, key } = pki.server
  const https = createHttpsServer({ cert, key }, (request) => request.socket.destroy())
  https.listen(0, '127.0.0.1')
  await once(https, 'listening')
  t.after(() => https.close())
  const url = `https://127.0.0.1:${(https.address() as AddressInfo).port}`
  const profile = writeProfile(t, { pki, url })
  for (const [line, says] of [
    ['vm stop web-1', /\n {2}run the command again; that is safe\n {2}if it ends each time, cert in /],
    ['vm reboot web-1', /\n {2}the change may be stored.* vmhostctl events --vm web-1\n/],
  ] as const) {
    const { status, err } = await ctl([...line.split(' '), '--profile', profile])
    assert.equal(status, 4, err)
    assert.match(
      err,
      /ended the connection before its answer: it restarted, or does not accept our certificate: /,
    )
    assert.match(err, says)
  }
  const failed = await ctl(['vm', 'stop', 'web-1', '--json', '--profile', profile])
  assert.match(failed.err + failed.out, /"connection_dropped"/)
})
