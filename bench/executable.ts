/** executable: size, time until it listens, and resident memory at rest, beside bare Node with an empty TLS server. */
import { spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { sh } from '../lab/inside/shell.ts'
import { measurement, median, progress } from './measurement.ts'
import { memoryMib } from './process-memory.ts'

const PROGRAM = '/usr/bin/vmhostd'
const RUNS = 10
const PORT = 9100
/** Time until resident memory is read: adoption and first collections are over. */
const REST_MS = 3000
const MIB = 1024 * 1024

const folder = mkdtempSync('/tmp/bench-')
const TLS = '/etc/vmhostd/tls'
const config = writeConfig()
const bare = `${folder}/bare.mjs`
writeFileSync(
  bare,
  `import { readFileSync } from 'node:fs'; import { createServer } from 'node:https'
   createServer({ key: readFileSync('${TLS}/server.key'), cert: readFileSync('${TLS}/server.crt') }).listen(${PORT})`,
)
await sh('vmhostd', 'setup', '--config', config)

const ours: Sample[] = []
const reference: Sample[] = []
for (let run = 0; run <= RUNS; run += 1) {
  const daemon = await measure(PROGRAM, ['serve', '--config', config])
  const node = await measure(process.execPath, [bare])
  // The first run of each brings the program into memory.
  if (run === 0) continue
  ours.push(daemon)
  reference.push(node)
  progress(
    `run ${run} of ${RUNS}: daemon ${daemon.listeningMs.toFixed(0)} ms, bare node ${node.listeningMs.toFixed(0)} ms`,
  )
}
rmSync(folder, { recursive: true })

type Sample = { readonly listeningMs: number; readonly rssMib: number }
const figure = (metric: string, unit: string, of: (sample: Sample) => number) =>
  measurement({
    bench: 'executable',
    metric,
    unit,
    ours: median(ours.map(of)),
    reference: median(reference.map(of)),
    reference_name: 'bare Node with an empty TLS server',
    runs: RUNS,
  })
console.log(
  JSON.stringify([
    measurement({
      bench: 'executable',
      metric: 'size_mib',
      unit: 'MiB',
      ours: statSync(PROGRAM).size / MIB,
      reference: statSync(process.execPath).size / MIB,
      reference_name: 'the Node binary, unstripped',
      runs: 1,
    }),
    figure('listening_ms', 'ms', (sample) => sample.listeningMs),
    figure('idle_rss_mib', 'MiB', (sample) => sample.rssMib),
  ]),
)

async function measure(program: string, args: readonly string[]): Promise<Sample> {
  const startedAt = performance.now()
  const child = spawn(program, args, { stdio: 'ignore' })
  while (!(await answers())) await sleep(1)
  const listeningMs = performance.now() - startedAt
  await sleep(REST_MS)
  const rssMib = memoryMib(String(child.pid))
  child.kill('SIGTERM')
  await once(child, 'exit')
  return { listeningMs, rssMib }
}

async function answers(): Promise<boolean> {
  const socket = connect(PORT, 'localhost')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

/** Configures another daemon beside the installed one, with other directories and another port. */
function writeConfig(): string {
  mkdirSync('/run/bench', { recursive: true })
  const path = `${folder}/config.toml`
  const lines = [
    `state_directory = "${folder}/state"`,
    `run_directory = "/run/bench"`,
    `[controller]`,
    `port = ${PORT}`,
    `[storage]`,
    `pool_directory = "${folder}/pool"`,
  ]
  writeFileSync(path, `${lines.join('\n')}\n`)
  return path
}
