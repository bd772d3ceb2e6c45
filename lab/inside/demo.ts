/* The demo inside the lab: one VM from nothing to nothing, with the daemon killed in the middle. */
import { step, StepFailed } from '../../tools/step.ts'
import { call, closeController, CURL_TLS, mutate, remove, settled } from './controller.ts'
import { guestRequest } from './guest.ts'
import { installDaemon, mainPid, ready, sh } from './shell.ts'
import { until } from './until.ts'

const VM = 'web-1'
const IPV4 = '192.0.2.10'
const IPV6 = '2001:db8::10'

/** Each prints nothing, or 0, where nothing is left of a VM. */
const leftovers = {
  unit: `systemctl list-units --all --no-legend 'vmhost-*.service'`,
  tap: `ls /sys/class/net | grep '^vmt' || true`,
  'nftables element': `nft list table inet vmhostd | grep -F -e '"vmt6' -e ${IPV4} || true`,
  disk: 'ls /var/lib/vmhostd/pool/disks',
  'stored descriptor': 'systemctl show --value --property=NFileDescriptorStore vmhostd',
} as const

try {
  await step('install the daemon: dpkg, vmhostd setup, systemctl start', installDaemon)
  await create()
  await showGuest()
  await killDaemon()
  await takeAway()
  console.log(`
    curl ${CURL_TLS} \\
      https://localhost:9000/v1/vms`)
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

/** The text of the guest's page. */
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

async function takeAway(): Promise<void> {
  await step(`DELETE /v1/vms/${VM}, until it is gone`, async () => {
    await remove(VM)
    const { status } = await call('GET', `/v1/vms/${VM}`)
    if (status !== 404) throw new Error(`it is answered ${status}`)
  })
  await step(`nothing is left behind: ${Object.keys(leftovers).join(', ')}`, async () => {
    for (const [what, command] of Object.entries(leftovers)) {
      const found = (await sh('sh', '-c', command)).trim()
      if (found !== '' && found !== '0') throw new Error(`a ${what} is left behind: ${found}`)
    }
  })
}

function quote(...lines: readonly string[]): void {
  for (const line of lines) console.log(`    | ${line}`)
}
