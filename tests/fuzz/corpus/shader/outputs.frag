#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
uniform vec2 u_resolution;
layout(location = 0) out vec4 fragColor0;
layout(location = 2) out vec4 fragColor2;
void main() { vec2 p = gl_FragCoord.xy / u_resolution; fragColor0 = vec4(p, 0.25, 1.0); fragColor2 = vec4(1.0 - texture(u_image0, v_texCoord).bgr, 0.5); }
