import { spawn } from 'node:child_process'
import { once } from 'node:events'

export type BareServer = { readonly pid: string; readonly port: number; end(): void }

/** Starts bare-server.ts in a process of its own. */
export async function startBareServer(): Promise<BareServer> {
  const server = spawn(process.execPath, [`${import.meta.dirname}/bare-server.ts`], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const [firstLine] = (await once(server.stdout, 'data')) as [Buffer]
  return {
    pid: String(server.pid),
    port: Number(firstLine.toString()),
    end: () => void server.stdin.end(),
  }
}
