/*
 * The demo inside a lab, in parts. `live`: one VM whose daemon is killed, which sleeps and wakes, and a snapshot of
 * which becomes a second VM. `moved`: the same guest at another host, until it is removed. `left`:
 * nothing of it at the first.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { step, StepFailed } from '../../tools/step.ts'
import { call, closeController, CURL_TLS, mutate, remove, settled } from './controller.ts'
import { doneSteps } from './done-steps.ts'
import { exchange } from './first-packets.ts'
import { servedPage } from './guest-page.ts'
import { guestRequest } from './guest.ts'
import { startObjectStore, trustObjectStore } from './object-store.ts'
import { bucketOf } from './presign.ts'
import { installDaemon, mainPid, ready, sh } from './shell.ts'
import { asleep, awake, sleepAfter } from './sleepers.ts'
import { completed, deleteSnapshot, startSnapshot } from './snapshots.ts'
import { until } from './until.ts'

const VM = 'web-1'
const IPV4 = '192.0.2.10'
const IPV6 = '2001:db8::10'
const SNAPSHOT = 'nightly-1'
const COPY = 'web-2'
const COPY_IPV4 = '192.0.2.11'
/** File with the boot id of the guest, for the part at the second host. */
const BOOT_ID = '/root/demo-boot-id'

/** Commands that print nothing, or 0, if nothing is left of a VM. */
const leftovers = {
  unit: `systemctl list-units --all --no-legend 'vmhost-*.service'`,
  tap: `ls /sys/class/net | grep '^vmt' || true`,
  // Sets with a timeout expire by themselves: how often a guest asked for its neighbours.
  'nftables element': `nft list table inet vmhostd | grep -v expires | grep -F -e '"vmt2' -e ${IPV4} || true`,
  disk: 'ls /var/lib/vmhostd/pool/disks',
  // A host has these folders only since its first snapshot, and since a VM first came to it.
  'staged snapshot': `find /var/lib/vmhostd/pool -path '*/staging/*'`,
  'incoming disk': `find /var/lib/vmhostd/pool -path '*/incoming/*'`,
  'stored descriptor': 'systemctl show --value --property=NFileDescriptorStore vmhostd',
} as const

const PARTS: Readonly<Record<string, () => Promise<void>>> = {
  async live() {
    await step('install the daemon: dpkg, vmhostd setup, systemctl start', installDaemon)
    await create()
    await showGuest()
    await killDaemon()
    await sleepAndWake()
    await snapshotAndBoot()
    writeFileSync(BOOT_ID, (await servedPage(IPV4)).bootId)
  },
  async moved() {
    await showMoved()
    await takeAway()
    await nothingLeft('second')
  },
  async left() {
    await nothingLeft('first')
    console.log(`
    curl ${CURL_TLS} \\
      https://localhost:9000/v1/vms`)
  },
}

try {
  await PARTS[process.argv[2] ?? 'live']?.()
} catch (error) {
  if (!(error instanceof StepFailed)) throw error
  process.exitCode = 1
} finally {
  closeController()
}

async function create(): Promise<void> {
  const vm = await step(
    `PUT /v1/vms/${VM} over mutual TLS, and wait until the generations meet`,
    async () => {
      await mutate(
        'PUT',
        `/v1/vms/${VM}`,
        guestRequest({ network: { ipv4_address: IPV4, ipv6_address: IPV6 } }),
      )
      return settled(VM, 'running')
    },
  )
  quote(JSON.stringify({ state: vm.observed.state, generations: vm.generations }))
}

async function showGuest(): Promise<void> {
  const page = await step(`the guest boots, and serves a page: http://${IPV4}/`, () =>
    until('the guest serves its page', () => fetchPage(IPV4)),
  )
  quote(page)
  await step('and over IPv6', () => until('the guest serves its page', () => fetchPage(`[${IPV6}]`)))
  const lines = await step(`its console, as the daemon keeps it: vmhostd console ${VM}`, async () => {
    const text = await sh('vmhostd', 'console', VM)
    if (!text.includes('demo guest ready')) throw new Error('the guest did not say that it is ready')
    return text.split(/[\r\n]+/).map((line) => line.slice(0, 100))
  })
  quote(...lines.slice(0, 3), '…', lines.find((line) => line.includes('demo guest ready')) ?? '')
}

/** Returns the text of the guest's page. */
async function fetchPage(host: string): Promise<string> {
  const html = await sh(
    'curl',
    '--silent',
    '--fail',
    '--location',
    '--globoff',
    '--max-time',
    '2',
    `http://${host}/`,
  )
  return html
    .replaceAll(/<[^>]*>|\s+/g, ' ')
    .replaceAll(/ +/g, ' ')
    .trim()
}

async function killDaemon(): Promise<void> {
  const monitor = await mainPid(`vmhost-${VM}`)
  const daemon = await mainPid('vmhostd')
  const page = await step('kill -9 the daemon; the guest still answers', async () => {
    await sh('systemctl', 'kill', '--signal=KILL', 'vmhostd')
    return fetchPage(IPV4)
  })
  quote(page)
  const report = await step(
    'the daemon is back, has adopted the console, and the guest is the same process',
    async () => {
      await until('another daemon runs', async () =>
        ['0', daemon].includes(await mainPid('vmhostd')) ? undefined : true,
      )
      await ready()
      if ((await mainPid(`vmhost-${VM}`)) !== monitor) throw new Error('the guest was restarted')
      return adoptionReport()
    },
  )
  quote(JSON.stringify(report))
}

async function adoptionReport(): Promise<object> {
  const log = await sh('journalctl', '--unit=vmhostd', '--output=cat')
  const line = log.split('\n').findLast((text) => text.includes('adopted_console_count'))
  if (line === undefined) throw new Error('the daemon did not report what it adopted')
  const { descriptor_store_available, adopted_console_count, running_unit_count } = JSON.parse(
    line,
  ) as Record<string, unknown>
  const report = { descriptor_store_available, adopted_console_count, running_unit_count }
  if (descriptor_store_available !== true || adopted_console_count !== 1 || running_unit_count !== 1) {
    throw new Error(`the console was not adopted: ${JSON.stringify(report)}`)
  }
  return report
}

/** Shows that the sleeping guest has no memory and no process, and that a packet wakes the same guest. */
async function sleepAndWake(): Promise<void> {
  const before = await servedPage(IPV4)
  const slept = await step('let it sleep after 1 s without traffic, and wait until it does', async () => {
    await mutate('PUT', `/v1/vms/${VM}/compute`, {
      cpu_millicores: 1000,
      memory_mib: 256,
      sleep_after_idle_seconds: 1,
    })
    return asleep(VM)
  })
  const state = await sh('systemctl', 'show', '--property=ActiveState,MainPID', `vmhost-${VM}`)
  quote(
    JSON.stringify({ state: slept.observed.state, saved_state: slept.observed.saved_state }),
    state.trim().split('\n').join(' '),
    `saved in ${await savedMs()} ms`,
  )
  const { firstByteMs, retransmitted } = await step('one TCP connection to the sleeping guest', () =>
    exchange(IPV4),
  )
  const { last_wake } = (await awake(VM)).observed
  quote(
    `first byte after ${firstByteMs.toFixed(0)} ms; ${retransmitted} packets sent again`,
    JSON.stringify({ last_wake }),
  )
  const after = await step('the guest is the one that fell asleep, and knows what time it is', async () => {
    const page = await servedPage(IPV4)
    if (page.bootId !== before.bootId) throw new Error('the guest was booted again')
    return page
  })
  for (const [when, page] of [
    ['before', before],
    ['after', after],
  ] as const)
    quote(`${when}: boot ${page.bootId}, its clock ${new Date(page.atMs).toISOString()}`)
}

/** Returns the duration of the save from the daemon's log. */
async function savedMs(): Promise<string> {
  const save = (await doneSteps()).findLast((done) => done.step === 'monitor.ensure-saved')
  return save?.elapsedMs.toFixed(0) ?? '?'
}

/** Gives the daemon only signed URLs; the second VM boots from the object in the bucket, as any VM could. */
async function snapshotAndBoot(): Promise<void> {
  const access = await step('start an S3-compatible object store (OpenStack Swift)', startObjectStore)
  await trustObjectStore()
  const bucket = bucketOf(access)
  const upload = await bucket.createUpload('web-1.img.zst', 16)
  bucket.close()
  let startedAt = 0
  const snapshot = await step(
    `PUT /v1/snapshots/${SNAPSHOT} of ${VM}, by signed URLs, until it is completed`,
    async () => {
      await sleepAfter(VM, 0, 256)
      await settled(VM, 'running')
      startedAt = performance.now()
      await startSnapshot(SNAPSHOT, VM, upload)
      return completed(SNAPSHOT)
    },
  )
  const { size_mib, stored_size_mib, consistency, paused_ms } = snapshot
  quote(
    JSON.stringify({ size_mib, stored_size_mib, consistency, paused_ms }),
    `in ${(performance.now() - startedAt).toFixed(0)} ms; sha256 ${snapshot.sha256 ?? ''}`,
  )
  const page = await step(`a second VM boots from the object: http://${COPY_IPV4}/`, async () => {
    const rootfs = { url: upload.getUrl, sha256: snapshot.sha256 ?? '' }
    const request = guestRequest({ network: { ipv4_address: COPY_IPV4 }, image: { rootfs } })
    await mutate('PUT', `/v1/vms/${COPY}`, request)
    await settled(COPY, 'running')
    return until('the guest serves its page', () => fetchPage(COPY_IPV4))
  })
  quote(page)
  await step(`DELETE /v1/snapshots/${SNAPSHOT} and ${COPY}`, async () => {
    await deleteSnapshot(SNAPSHOT)
    await remove(COPY)
  })
}

/** Shows that the guest is the one that the first host had, with the console that it had there. */
async function showMoved(): Promise<void> {
  const page = await step('the guest answers at the second host, and was not booted again', async () => {
    const { observed } = await settled(VM, 'running')
    const found = await servedPage(IPV4)
    if (found.bootId !== readFileSync(BOOT_ID, 'utf8')) throw new Error('the guest was booted again')
    const lines = await sh('vmhostd', 'console', VM)
    if (!lines.includes('demo guest ready')) throw new Error('its console did not move with it')
    return { ...found, stage: observed.arrival?.stage }
  })
  quote(`boot ${page.bootId}, arrival ${page.stage ?? ''}`)
}

async function takeAway(): Promise<void> {
  await step(`DELETE /v1/vms/${VM}, until it is gone`, async () => {
    await remove(VM)
    const { status } = await call('GET', `/v1/vms/${VM}`)
    if (status !== 404) throw new Error(`it is answered ${status}`)
  })
}

async function nothingLeft(host: 'first' | 'second'): Promise<void> {
  await step(`nothing is left on the ${host} host: ${Object.keys(leftovers).join(', ')}`, async () => {
    for (const [what, command] of Object.entries(leftovers)) {
      const found = (await sh('sh', '-c', command)).trim()
      if (found !== '' && found !== '0') throw new Error(`a ${what} is left behind: ${found}`)
    }
  })
}

function quote(...lines: readonly string[]): void {
  for (const line of lines) console.log(`    | ${line}`)
}
