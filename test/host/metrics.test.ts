/** Metrics of the installed daemon with a real guest, as Prometheus reads them. */
import assert from 'node:assert/strict'
import { existsSync, readdirSync, writeFileSync } from 'node:fs'
import { test } from 'node:test'
import { makeBare, udpEcho } from '../../lab/inside/bare.ts'
import { configure } from '../../lab/inside/configure.ts'
import { CURL_TLS, remove } from '../../lab/inside/controller.ts'
import { sh } from '../../lab/inside/shell.ts'
import { asleep, sleepAfter, sleeper } from '../../lab/inside/sleepers.ts'
import { until } from '../../lab/inside/until.ts'
import { seriesOf, valueIn } from '../metrics-text.ts'
import { seriesPerVm } from '../../src/core/metrics/catalogue.ts'
import { skipWithoutBareGuest } from './bare-guest-stage.ts'
import { sharedHost } from './shared-host.ts'

const TLS = '/etc/vmhostd/tls'
const READER_TLS = `--cacert ${TLS}/ca.crt --cert ${TLS}/metrics.crt --key ${TLS}/metrics.key`
const DIST = '/src/dist'
/** Put there for host tests by `./dev test`. */
const PROMTOOL = `${DIST}/promtool`

sharedHost({
  async make() {
    await configure('metrics', { enabled: true })
    await sh('vmhostd', 'setup')
  },
  remove: () => configure('metrics', { enabled: undefined }),
})

const curl = (port: number, path: string, tls: string): Promise<string> =>
  sh('curl', '--silent', '--show-error', ...tls.split(' '), `https://localhost:${port}${path}`)

const scrape = (): Promise<string> => curl(9002, '/metrics', READER_TLS)

/** Waits until the metrics are as a test wants them: readers share an answer for some time. */
const scraped = (what: string, isSo: (text: string) => boolean): Promise<string> =>
  until(what, async () => {
    const text = await scrape()
    return isSo(text) ? text : undefined
  })

const one = sleeper('metered', 63)

test(
  'a reader sees the figures of a guest that runs, sleeps and wakes, and Prometheus takes all of them',
  { skip: skipWithoutBareGuest },
  async (t) => {
    await makeBare(one)
    // The delay of the event loop is measured every half a second, and the guest may be sooner.
    const text = await scraped(
      'the guest has traffic, and the daemon has measured its event loop',
      (seen) =>
        (valueIn(seen, 'vmhostd_vm_network_transmit_packets_total', { vm: one.id }) ?? 0) > 0 &&
        (valueIn(seen, 'vmhostd_event_loop_delay_seconds_count') ?? 0) > 0,
    )
    const value = (name: string, labels = {}): number =>
      valueIn(text, name, { vm: one.id, ...labels }) ?? assert.fail(`${name} is absent`)
    assert.ok(value('vmhostd_vm_cpu_seconds_total') > 0)
    assert.ok(value('vmhostd_vm_resident_memory_bytes', { kind: 'anonymous' }) > 1024 * 1024)
    assert.equal(value('vmhostd_vm_state', { state: 'running' }), 1)
    assert.equal(value('vmhostd_vm_disk_size_bytes'), 64 * 1024 * 1024)
    assert.ok(value('vmhostd_vm_start_time_seconds') <= Date.now() / 1000)
    assert.ok(seriesOf(text, one.id).length <= seriesPerVm())
    for (const collector of [
      'host',
      'ledger',
      'consoles',
      'staging',
      'vms',
      'vm_cpu',
      'vm_network',
      'vm_disk',
    ])
      assert.equal(valueIn(text, 'vmhostd_collector_success', { collector }), 1, collector)
    assert.equal(valueIn(text, 'vmhostd_descriptor_store_available'), 1)
    assert.ok(
      (valueIn(text, 'vmhostd_step_duration_seconds_count', { step: 'unit.ensure-started' }) ?? 0) >= 1,
    )
    for (const certificate of ['server', 'authority', 'node'])
      assert.ok((valueIn(text, 'vmhostd_certificate_not_after_timestamp_seconds', { certificate }) ?? 0) > 0)
    writeFileSync('/tmp/metrics.txt', text)
    if (existsSync(PROMTOOL))
      assert.equal(await sh('sh', '-c', `${PROMTOOL} check metrics </tmp/metrics.txt 2>&1`), '')
    else assert.notEqual(process.env['CI'], 'true', `${PROMTOOL} is missing`)
    t.diagnostic(`${text.split('\n').length} lines, ${seriesOf(text, one.id).length} series of the VM`)
    await sleepAfter(one.id, 1)
    await asleep(one.id)
    const resting = await scraped(
      'the VM sleeps',
      (seen) => valueIn(seen, 'vmhostd_vm_state', { vm: one.id, state: 'sleeping' }) === 1,
    )
    assert.equal(valueIn(resting, 'vmhostd_vm_cpu_seconds_total', { vm: one.id }), undefined)
    assert.notEqual(valueIn(resting, 'vmhostd_vm_network_receive_bytes_total', { vm: one.id }), undefined)
    assert.equal(valueIn(resting, 'vmhostd_collector_success', { collector: 'vm_network' }), 1)
    await udpEcho(one.ipv4)
    const woken = await scraped(
      'the wake is counted',
      (seen) => valueIn(seen, 'vmhostd_vm_wakes_total', { vm: one.id }) === 1,
    )
    assert.equal(valueIn(woken, 'vmhostd_wake_duration_seconds_count', { reason: 'traffic' }), 1)
    assert.ok((valueIn(woken, 'vmhostd_wake_duration_seconds_sum', { reason: 'traffic' }) ?? 0) > 0)
    await remove(one.id)
    await scraped('the series of the VM end', (seen) => !seen.includes(one.id))
  },
)

test('the certificate of a reader opens nothing else, and the controller reads on its own port', async () => {
  assert.match(await curl(9000, '/metrics', CURL_TLS), /^vmhostd_ready 1$/m)
  for (const port of [9000, 9001]) {
    const answer = await curl(port, '/healthz', READER_TLS)
    assert.equal(JSON.parse(answer).code, 'forbidden', `port ${port}`)
  }
  assert.equal(JSON.parse(await curl(9002, '/v1/vms', READER_TLS)).code, 'not_found')
  assert.equal(JSON.parse(await curl(9002, '/metrics', CURL_TLS)).code, 'forbidden')
})

test('the package brings the alerts and the dashboard', async () => {
  const [deb = ''] = readdirSync(DIST).filter((name) => name.endsWith('.deb'))
  const files = await sh('dpkg', '--contents', `${DIST}/${deb}`)
  for (const name of ['vmhostd-alerts.yml', 'vmhostd-dashboard.json'])
    assert.ok(files.includes(`./usr/share/doc/vmhostd/${name}`), name)
})
