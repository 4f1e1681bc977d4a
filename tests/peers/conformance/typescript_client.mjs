// A client of the TypeScript SDK, which starts the server that its arguments name, calls its first tool, and says on stdout what it saw.
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'

const [command, ...args] = process.argv.slice(1)
const seen = { asked: [], progress: [] }
const client = new Client({ name: 'typescript', version: '1' }, { capabilities: { elicitation: {} } })
client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
  seen.asked.push(params.message)
  return { action: 'accept', content: { decision: 'allow' } }
})
await client.connect(new StdioClientTransport({ command, args, env: process.env, stderr: 'inherit' }))
seen.server = client.getServerVersion()
seen.tools = (await client.listTools()).tools
const call = { name: seen.tools[0].name, arguments: { prompt: 'Do it.' } }
seen.result = await client.callTool(call, undefined, { onprogress: (note) => seen.progress.push(note) })
await client.close()
console.log(JSON.stringify(seen))
