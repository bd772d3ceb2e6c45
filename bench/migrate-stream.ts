/**
 * How fast the disk of an offered VM leaves its host, beside a file of the same bytes:
 * curl reads both over mutual TLS 1.3.
 */
import { labExec } from '../lab/lab.ts'
import { TLS } from '../test/two-hosts/lab-host.ts'
import { offer } from '../test/two-hosts/move.ts'
import type { LabHost } from '../test/two-hosts/lab-host.ts'
import type { Move } from '../test/two-hosts/move.ts'

const PORT = 9100
/** Folder of the file that is served. */
export const SERVED = '/var/lib/vmhostd/pool/bench-stream'
const ARRIVAL = 'bench'

/** Bytes per second of each run. */
export type StreamRates = { readonly ours: readonly number[]; readonly file: readonly number[] }

/** Reads the first round of a VM and a file of as many bytes, in turns. The VM stays where it is. */
export async function streamRates(move: Move, runs: number): Promise<StreamRates> {
  const { from, to, vm, migration } = move
  await offer(move)
  const path = `https://${from.address}:9001/v1/migrations/${migration}`
  const body = JSON.stringify({ arrival: ARRIVAL, number: 1 })
  await to.run('curl', '--silent', '--fail', ...AS_NODE, '--json', body, `${path}/rounds`)
  const round = `${path}/rounds/1?arrival=${ARRIVAL}`
  const { bytes } = await read(to, round)
  await from.run('sh', '-c', `mkdir -p ${SERVED}; head -c ${bytes} /dev/urandom >${SERVED}/file`)
  const end = await serve(from)
  const rates = { ours: [] as number[], file: [] as number[] }
  try {
    for (let run = 0; run < runs; run += 1) {
      rates.file.push((await read(to, fileUrl(from))).rate)
      rates.ours.push((await read(to, round)).rate)
    }
  } finally {
    await end()
    await from.run('rm', '-r', SERVED)
    await from.controller.mutate('DELETE', `/v1/vms/${vm}/migration`)
  }
  return rates
}

/** Returns the URL of the file `file` of the served folder. */
export const fileUrl = (host: LabHost): string => `https://${host.address}:${PORT}/file`

/** Options with which curl trusts the nodes, and is one. */
export const AS_NODE = [
  '--cacert',
  `${TLS}/nodes-ca.crt`,
  '--cert',
  `${TLS}/node.crt`,
  '--key',
  `${TLS}/node.key`,
]

async function read(host: LabHost, url: string): Promise<{ readonly bytes: number; readonly rate: number }> {
  const format = '%{size_download} %{time_starttransfer} %{time_total}'
  const argv = ['curl', '--silent', '--fail', '--output', '/dev/null', '--write-out', format]
  const [bytes = 0, began = 0, ended = 0] = (await host.run(...argv, ...AS_NODE, url)).split(' ').map(Number)
  return { bytes, rate: bytes / (ended - began) }
}

/** Serves the folder with the node certificate, to other nodes. Returns the function that ends this. */
export async function serve(host: LabHost): Promise<() => Promise<void>> {
  await host.run('mkdir', '--parents', SERVED)
  const identity = ['-cert', `${TLS}/node.crt`, '-key', `${TLS}/node.key`, '-CAfile', `${TLS}/nodes-ca.crt`]
  const options = ['-accept', String(PORT), '-tls1_3', '-Verify', '1', '-quiet', '-WWW', ...identity]
  const unit = 'bench-stream'
  const properties = [`--unit=${unit}`, `--property=WorkingDirectory=${SERVED}`]
  await host.run('systemd-run', '--quiet', '--collect', ...properties, 'openssl', 's_server', ...options)
  await host.run('timeout', '10', 'sh', '-c', `until ss -ltn | grep -q :${PORT}; do sleep 0.05; done`)
  return async () => void (await labExec(host.lab, ['systemctl', 'stop', unit]))
}
