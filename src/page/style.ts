/** How pages look: on a screen, light and dark, and on paper. */

const light = `--fg:#1b1f24;--dim:#57606a;--bg:#fff;--soft:#f3f5f8;--line:#c3cad3;--accent:#1f4f99;--on:#fff;--error:#a4161a;--warning:#7a4b00;--note:#3d4f66;--good:#14692f;--pick:#dbe8fb;color-scheme:light`;
const dark = `--fg:#e6e9ed;--dim:#a3acb6;--bg:#15181c;--soft:#1f242b;--line:#444c56;--accent:#8ab4f8;--on:#10131a;--error:#ff8a8a;--warning:#e6b450;--note:#b3c2d6;--good:#5ac47d;--pick:#26374f;color-scheme:dark`;

export const pageStyle = `:root{${light}}
@media(prefers-color-scheme:dark){:root:not([data-theme=light]){${dark}}}
:root[data-theme=dark]{${dark}}
*{box-sizing:border-box}
body{font:14px/1.45 system-ui,sans-serif;margin:0;color:var(--fg);background:var(--bg)}
header,main{padding:0 20px}h1{font-size:20px;margin:16px 0 4px;overflow-wrap:anywhere}h2{font-size:17px;margin:28px 0 8px}h3{font-size:14px;margin:14px 0 4px}
a{color:var(--accent)}nav{display:flex;gap:16px;flex-wrap:wrap;align-items:center;padding:4px 20px;position:sticky;top:0;background:var(--bg);border-bottom:1px solid var(--line);z-index:3}nav label{margin-left:auto}
code,pre,.mono{font:12px/1.5 ui-monospace,SFMono-Regular,Menlo,monospace}pre{margin:0;white-space:pre-wrap;overflow-wrap:anywhere}
button,select,input{font:inherit;color:var(--fg);background:var(--bg);border:1px solid var(--line);border-radius:4px;padding:3px 8px}
button{cursor:pointer}:focus-visible{outline:2px solid var(--accent);outline-offset:1px}
.bar{display:flex;gap:10px;flex-wrap:wrap;align-items:end;margin:8px 0}.bar label{display:flex;flex-direction:column;font-size:12px;color:var(--dim)}.bar input[type=search]{min-width:280px}
.counts{display:flex;gap:8px;flex-wrap:wrap;padding:0;list-style:none;margin:8px 0}.counts button{display:flex;gap:6px}
.error{color:var(--error)}.warning{color:var(--warning)}.note{color:var(--note)}.none{color:var(--good)}.dim{color:var(--dim)}
.sites{display:grid;grid-template-columns:minmax(0,1fr) minmax(320px,430px);gap:16px}@media(max-width:1000px){.sites{grid-template-columns:minmax(0,1fr)}}
.grid{max-height:522px;overflow:auto;border:1px solid var(--line);border-radius:4px;position:relative}
.grid .row{display:grid;width:100%}.grid .head{position:sticky;top:0;background:var(--soft);z-index:1;border-bottom:1px solid var(--line)}
.grid .head button{border:0;background:none;font-weight:600;text-align:left;width:100%;padding:4px 8px}
.grid .body{position:relative}.grid .body .row{position:absolute;left:0;height:26px;border-bottom:1px solid var(--soft);cursor:default}
.grid .body .row[aria-selected=true]{background:var(--pick)}.grid [role=gridcell]{padding:3px 8px;overflow:hidden;text-overflow:ellipsis;white-space:nowrap}
.grid [role=gridcell].number,.grid .number button{text-align:right}
.grid:focus-visible .row[aria-selected=true]{outline:2px solid var(--accent);outline-offset:-2px}
.detail{border:1px solid var(--line);border-radius:4px;padding:4px 14px 14px;overflow-wrap:anywhere;max-height:max(522px,80vh);overflow:auto}
.pair{display:grid;grid-template-columns:repeat(auto-fit,minmax(230px,1fr));gap:10px}.code{background:var(--soft);border-radius:4px;padding:6px 8px}.code h4{margin:0 0 4px;font-size:12px}#account .said{white-space:pre-wrap;margin-bottom:6px}#account pre{white-space:pre;overflow-wrap:normal;overflow-x:auto}
dl{display:grid;grid-template-columns:max-content 1fr;gap:2px 12px;margin:6px 0}dt{color:var(--dim)}dd{margin:0}
.way{display:flex;flex-direction:column;gap:0;list-style:none;padding:0;margin:6px 0}.way li{border:1px solid var(--line);border-left:4px solid var(--accent);border-radius:4px;padding:4px 8px}
.way li+li{margin-top:22px;position:relative}.way li+li::before{content:"\\2193";position:absolute;top:-22px;left:14px;color:var(--accent)}.way .kind{font-weight:600}
svg{display:block;max-width:100%;background:var(--bg)}svg text{font:11px ui-monospace,monospace;fill:var(--fg)}svg .range{fill:var(--soft);stroke:var(--line)}svg .sites{fill:var(--accent);opacity:.75}
svg .arc{fill:none;stroke:var(--accent);opacity:.7}svg .reach{fill:none;stroke:var(--warning);stroke-width:2}svg .gap{stroke:var(--line);stroke-dasharray:3 3}svg .pick{fill:var(--error)}svg .small{fill:var(--dim)}
svg .slice{cursor:pointer}svg .slice rect{stroke:var(--bg);stroke-width:.5}svg .slice text{pointer-events:none}.c0{fill:#cfe0f7}.c1{fill:#f7e2c4}.c2{fill:#d3eed7}.c3{fill:#f3d3df}.c4{fill:#e0d8f5}.c5{fill:#d3ecec}svg .label{fill:#1b1f24}
.schedule,.wide{max-width:none}.schedule .lane{fill:var(--soft)}.schedule .lane-name{font-weight:600}.schedule .thread-line{fill:none;stroke:var(--accent);stroke-width:1.5;opacity:.55}
.event{cursor:pointer}.event rect{fill:var(--bg);stroke:var(--line)}.event circle{fill:var(--accent)}.event.step rect{stroke:var(--warning)}.event.step circle{fill:var(--warning)}.event.wrong rect{stroke:var(--error);stroke-width:2}.event.wrong circle{fill:var(--error)}.event.now rect{fill:var(--pick)}.event.later{opacity:.4}svg .byte{fill:var(--dim)}svg .byte.changed{fill:var(--error);font-weight:700}
section,.race{scroll-margin-top:48px}.race{border-top:1px solid var(--line);margin-top:20px}.race .draw{max-height:620px;overflow:auto}caption{text-align:left;color:var(--dim);font-size:12px}tr[aria-current] th{color:var(--accent)}.state{margin:6px 0}
.draw{overflow-x:auto;border:1px solid var(--line);border-radius:4px;margin:6px 0}.draw>div,.draw>p{padding:2px 14px 10px}
table.plain{border-collapse:collapse}table.plain td,table.plain th{text-align:left;padding:2px 14px 2px 0;vertical-align:top}
.print{display:none}
@media print{nav,.bar,.grid,button{display:none!important}.sites{display:block}.detail{max-height:none;border:0;padding:0}.print{display:block}.print table{border-collapse:collapse;font-size:10px}.print td,.print th{text-align:left;padding:1px 8px 1px 0;overflow-wrap:anywhere}.draw,.race .draw{overflow:visible;max-height:none}.schedule,.wide{max-width:100%;height:auto}.event.later{opacity:1}.step,.state{display:none}:root,:root:not([data-theme=light]),:root[data-theme=dark]{${light}}}`;
